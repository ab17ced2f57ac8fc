//! The picture of a month: what was spent day by day, one colour for each project.
//!
//! It brings its own ground and its own letters: it reads the same in dark and light clients, and needs no font of the machine.

use std::convert::Infallible;
use std::io::Cursor;

use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::ascii::{FONT_8X13, FONT_10X20};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Line, PrimitiveStyle, Rectangle};
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};
use image::{ImageError, ImageFormat, Rgb, RgbImage};

use crate::domain::money::Usd;
use crate::domain::time::Month;

const WIDTH: i32 = 900;
const HEIGHT: i32 = 420;
/// The area of the bars.
const LEFT: i32 = 90;
const RIGHT: i32 = WIDTH - 20;
const TOP: i32 = 80;
const BOTTOM: i32 = HEIGHT - 40;

const GROUND: Rgb888 = Rgb888::new(0x1f, 0x23, 0x2b);
const GRID: Rgb888 = Rgb888::new(0x3c, 0x43, 0x50);
const INK: Rgb888 = Rgb888::new(0xe8, 0xea, 0xee);
/// Colours that people with any kind of colour vision tell apart on the dark ground; the last is for all others.
const COLOURS: [Rgb888; 6] = [
    Rgb888::new(0x56, 0xb4, 0xe9),
    Rgb888::new(0xe6, 0x9f, 0x00),
    Rgb888::new(0x00, 0xc0, 0x8f),
    Rgb888::new(0xf0, 0xe4, 0x42),
    Rgb888::new(0xe0, 0x8a, 0xbb),
    Rgb888::new(0x9a, 0xa3, 0xb2),
];

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Days {
    /// The month.
    pub month: Month,
    /// Of each project its name and what was spent on each day.
    pub projects: Vec<(String, Vec<Usd>)>,
}

/// Returns the picture as a PNG.
pub fn png(days: &Days) -> Result<Vec<u8>, ImageError> {
    let mut bytes = Cursor::new(Vec::new());
    draw(&grouped(days))
        .0
        .write_to(&mut bytes, ImageFormat::Png)?;
    Ok(bytes.into_inner())
}

/// Orders projects by their sums and puts those beyond the colours together.
fn grouped(days: &Days) -> Days {
    let sum = |row: &[Usd]| row.iter().copied().sum::<Usd>();
    let mut projects = days.projects.clone();
    projects.sort_by_key(|(_, row)| std::cmp::Reverse(sum(row)));
    if projects.len() > COLOURS.len() {
        let rest = projects.split_off(COLOURS.len() - 1);
        let mut others = vec![Usd::ZERO; usize::from(days.month.days())];
        for (_, row) in &rest {
            for (all, one) in others.iter_mut().zip(row) {
                *all = *all + *one;
            }
        }
        projects.push((format!("{} others", rest.len()), others));
    }
    Days {
        month: days.month,
        projects,
    }
}

fn draw(days: &Days) -> Canvas {
    let mut canvas = Canvas(RgbImage::from_pixel(
        WIDTH.unsigned_abs(),
        HEIGHT.unsigned_abs(),
        Rgb([GROUND.r(), GROUND.g(), GROUND.b()]),
    ));
    let count = usize::from(days.month.days());
    let of_day = |day: usize| {
        days.projects
            .iter()
            .filter_map(move |(_, row)| row.get(day))
    };
    let total: Usd = (0..count).flat_map(of_day).copied().sum();
    let highest = (0..count)
        .map(|day| of_day(day).copied().sum::<Usd>())
        .max();
    let top = round_up(highest.unwrap_or_default());
    let title = format!("{}   {total}", days.month);
    large(&mut canvas, &title, Point::new(20, 14));
    legend(&mut canvas, days);
    scale(&mut canvas, top);
    for day in 0..count {
        bar(&mut canvas, days, day, count, top);
    }
    canvas
}

/// Draws lines at quarters of the highest amount, with what they stand for.
fn scale(canvas: &mut Canvas, top: Usd) {
    for quarter in 0..=4u64 {
        let y = height_of(Usd(top.0 / 4 * quarter), top);
        let line = Line::new(Point::new(LEFT, y), Point::new(RIGHT, y));
        let Ok(()) = line
            .into_styled(PrimitiveStyle::with_stroke(GRID, 1))
            .draw(canvas);
        let amount = Usd(top.0 / 4 * quarter).to_string();
        small(canvas, &amount, Point::new(LEFT - 8, y), Alignment::Right);
    }
}

fn bar(canvas: &mut Canvas, days: &Days, day: usize, count: usize, top: Usd) {
    let at = |day: usize| LEFT + (RIGHT - LEFT) * to_i32(day) / to_i32(count.max(1));
    let (left, right) = (at(day) + 3, at(day + 1) - 3);
    let mut below = Usd::ZERO;
    for ((_, row), colour) in days.projects.iter().zip(COLOURS) {
        let amount = row.get(day).copied().unwrap_or_default();
        if amount == Usd::ZERO {
            continue;
        }
        let (lower, upper) = (height_of(below, top), height_of(below + amount, top));
        // The smallest amount is seen all the same.
        let upper = upper.min(lower - 1);
        let bar = Rectangle::with_corners(Point::new(left, upper), Point::new(right, lower - 1));
        let Ok(()) = bar
            .into_styled(PrimitiveStyle::with_fill(colour))
            .draw(canvas);
        below = below + amount;
    }
    let middle = Point::new((left + right) / 2, BOTTOM + 14);
    small(canvas, &(day + 1).to_string(), middle, Alignment::Center);
}

fn legend(canvas: &mut Canvas, days: &Days) {
    let mut x = 20;
    for ((name, _), colour) in days.projects.iter().zip(COLOURS) {
        let name: String = name.chars().take(16).collect();
        let square = Rectangle::new(Point::new(x, 48), Size::new(12, 12));
        let Ok(()) = square
            .into_styled(PrimitiveStyle::with_fill(colour))
            .draw(canvas);
        small(canvas, &name, Point::new(x + 18, 54), Alignment::Left);
        x += 18 + 8 * to_i32(name.chars().count()) + 16;
    }
}

fn height_of(amount: Usd, top: Usd) -> i32 {
    let room = u128::from((BOTTOM - TOP).unsigned_abs());
    let height = room * u128::from(amount.0) / u128::from(top.0.max(1));
    BOTTOM - i32::try_from(height.min(room)).unwrap_or(0)
}

/// Returns the next amount above that reads well: four times 1, 2 or 5 of a power of ten, so that quarters read well too.
fn round_up(amount: Usd) -> Usd {
    let mut unit = 400u64;
    while let Some(next) = unit.checked_mul(10) {
        for step in [unit, unit.saturating_mul(2), unit.saturating_mul(5)] {
            if step >= amount.0 {
                return Usd(step);
            }
        }
        unit = next;
    }
    amount
}

fn to_i32(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn large(canvas: &mut Canvas, text: &str, at: Point) {
    let style = MonoTextStyle::new(&FONT_10X20, INK);
    let Ok(_) = Text::with_baseline(text, at, style, Baseline::Top).draw(canvas);
}

fn small(canvas: &mut Canvas, text: &str, at: Point, alignment: Alignment) {
    let letters = MonoTextStyle::new(&FONT_8X13, INK);
    let place = TextStyleBuilder::new()
        .alignment(alignment)
        .baseline(Baseline::Middle)
        .build();
    let Ok(_) = Text::with_text_style(text, at, letters, place).draw(canvas);
}

/// The picture, as something to draw on.
struct Canvas(RgbImage);

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(self.0.width(), self.0.height())
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Infallible>
    where
        I: IntoIterator<Item = Pixel<Rgb888>>,
    {
        for Pixel(at, colour) in pixels {
            let (Ok(x), Ok(y)) = (u32::try_from(at.x), u32::try_from(at.y)) else {
                continue;
            };
            if let Some(pixel) = self.0.get_pixel_mut_checked(x, y) {
                *pixel = Rgb([colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(rows: &[(&str, &[(usize, u64)])]) -> Days {
        let projects = rows.iter().map(|(name, days)| {
            let mut row = vec![Usd::ZERO; 30];
            for (day, amount) in *days {
                row[day - 1] = Usd(*amount);
            }
            ((*name).to_owned(), row)
        });
        Days {
            month: "2026-11".parse().unwrap(),
            projects: projects.collect(),
        }
    }

    fn pixels_of(canvas: &Canvas, colour: Rgb888) -> usize {
        let wanted = Rgb([colour.r(), colour.g(), colour.b()]);
        canvas.0.pixels().filter(|pixel| **pixel == wanted).count()
    }

    #[test]
    fn twice_the_money_is_twice_the_height() {
        let canvas = draw(&month(&[
            ("site", &[(3, 2_000_000)]),
            ("notes", &[(4, 1_000_000)]),
        ]));
        let legend = 12 * 12;
        let (site, notes) = (
            pixels_of(&canvas, COLOURS[0]) - legend,
            pixels_of(&canvas, COLOURS[1]) - legend,
        );
        assert!(site.abs_diff(2 * notes) <= site / 20, "{site} and {notes}");
    }

    #[test]
    fn many_projects_share_the_last_colour_and_lose_nothing() {
        let names: Vec<String> = (0..9).map(|n| format!("p{n}")).collect();
        let one: &[(usize, u64)] = &[(1, 10_000)];
        let rows: Vec<_> = names.iter().map(|name| (name.as_str(), one)).collect();
        let days = grouped(&month(&rows));
        assert_eq!(days.projects.len(), COLOURS.len());
        let sum: Usd = days.projects.iter().flat_map(|(_, row)| row).copied().sum();
        assert_eq!(sum, Usd(90_000));
        assert_eq!(days.projects[5].0, "4 others");
    }

    #[test]
    fn letters_need_no_font_of_the_machine_and_stand_out() {
        let canvas = draw(&month(&[("site", &[(1, 1)])]));
        assert!(pixels_of(&canvas, INK) > 500);
        let bytes = png(&month(&[])).unwrap();
        assert_eq!(&bytes[1..4], b"PNG");
        assert!(bytes.len() < 100_000);
    }

    #[test]
    fn amounts_of_any_size_stay_within_the_picture() {
        for amount in [0, 1, 399, 400, 1_000_000, 4_000_001, u64::MAX / 8] {
            let top = round_up(Usd(amount));
            assert!(top >= Usd(amount));
            assert!(height_of(Usd(amount), top) >= TOP);
            draw(&month(&[("a", &[(1, amount)]), ("b", &[(1, amount)])]));
        }
    }
}
