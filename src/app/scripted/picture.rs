//! A small bar chart as a PNG.

use std::path::Path;

use image::{ImageError, Rgb, RgbImage};

const WIDTH: u32 = 640;
const HEIGHT: u32 = 360;
const MARGIN: u32 = 30;

/// The most bars that are drawn: each stays at least some pixels wide.
const BARS: usize = 60;

const PAPER: Rgb<u8> = Rgb([255, 255, 255]);
const GRID: Rgb<u8> = Rgb([225, 225, 230]);
const AXIS: Rgb<u8> = Rgb([60, 60, 70]);
const BAR: Rgb<u8> = Rgb([66, 110, 200]);
const BELOW: Rgb<u8> = Rgb([205, 92, 80]);

/// Draws the numbers, one bar each, and saves the picture.
pub(super) fn save(numbers: &[f64], path: &Path) -> Result<(), ImageError> {
    draw(numbers).save_with_format(path, image::ImageFormat::Png)
}

/// Returns the numbers of a table: of each line the last field that is a number.
pub(super) fn numbers(table: &str) -> Vec<f64> {
    table
        .lines()
        .filter_map(|line| {
            line.split([',', ';', '\t'])
                .rev()
                .find_map(|field| field.trim().trim_matches('"').parse().ok())
        })
        .filter(|number: &f64| number.is_finite())
        .collect()
}

fn draw(numbers: &[f64]) -> RgbImage {
    let numbers = &numbers[..numbers.len().min(BARS)];
    let mut picture = RgbImage::from_pixel(WIDTH, HEIGHT, PAPER);
    let top = numbers.iter().copied().fold(0.0, f64::max);
    let bottom = numbers.iter().copied().fold(0.0, f64::min);
    let span = if top > bottom { top - bottom } else { 1.0 };
    let height = f64::from(HEIGHT - 2 * MARGIN);
    let y = |number: f64| MARGIN + ((top - number) / span * height) as u32;
    for line in 0..=4 {
        let y = MARGIN + line * (HEIGHT - 2 * MARGIN) / 4;
        fill(&mut picture, MARGIN..WIDTH - MARGIN, y..y + 1, GRID);
    }
    let step = (WIDTH - 2 * MARGIN) / numbers.len().max(1) as u32;
    for (at, number) in (0..).zip(numbers) {
        let x = MARGIN + at * step;
        let (from, to) = (y(number.max(0.0)), y(number.min(0.0)));
        let colour = if *number < 0.0 { BELOW } else { BAR };
        fill(
            &mut picture,
            x + step / 8..x + step - step / 8,
            from..to,
            colour,
        );
    }
    let zero = y(0.0);
    fill(&mut picture, MARGIN..WIDTH - MARGIN, zero..zero + 2, AXIS);
    fill(
        &mut picture,
        MARGIN..MARGIN + 2,
        MARGIN..HEIGHT - MARGIN,
        AXIS,
    );
    picture
}

fn fill(
    picture: &mut RgbImage,
    across: std::ops::Range<u32>,
    down: std::ops::Range<u32>,
    colour: Rgb<u8>,
) {
    for y in down {
        for x in across.clone() {
            if let Some(pixel) = picture.get_pixel_mut_checked(x, y) {
                *pixel = colour;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_each_line_counts() {
        let table = "month,sales\nJan,12\nFeb,\"3.5\",\n\nMar,x\nApr;1;-2\n";
        assert_eq!(numbers(table), [12.0, 3.5, -2.0]);
    }

    #[test]
    fn bars_stand_above_and_below_the_axis() {
        let picture = draw(&[4.0, -4.0]);
        assert_eq!(picture.get_pixel(MARGIN + 145, 100), &BAR);
        assert_eq!(picture.get_pixel(MARGIN + 145, 250), &PAPER);
        assert_eq!(picture.get_pixel(MARGIN + 435, 250), &BELOW);
    }

    #[test]
    fn any_numbers_can_be_drawn() {
        for numbers in [vec![], vec![0.0; 3], vec![1e300, -1e300], vec![5.0; 1000]] {
            assert_eq!(draw(&numbers).dimensions(), (WIDTH, HEIGHT));
        }
    }
}
