//! Moments and months. Nothing here asks what time it is.

use std::ops::Add;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub i64);

impl Moment {
    /// Returns how long ago `earlier` was; nothing if it lies ahead.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns whole seconds since 1970, as Discord's `<t:…>` wants them.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, rest: Duration) -> Moment {
        Moment(
            self.0
                .saturating_add(i64::try_from(rest.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

/// A calendar month in the configured zone: what a budget is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Month {
    /// The year, as in the Gregorian calendar.
    pub year: i16,
    /// 1 to 12.
    pub month: i8,
}

impl Month {
    /// Returns the month that `at` falls into in `zone`.
    pub fn of(at: Moment, zone: &TimeZone) -> Month {
        let zoned = Timestamp::from_millisecond(at.0)
            .unwrap_or(Timestamp::UNIX_EPOCH)
            .to_zoned(zone.clone());
        Month {
            year: zoned.year(),
            month: zoned.month(),
        }
    }

    /// Returns how many days it has.
    pub fn days(self) -> u8 {
        let first = jiff::civil::Date::new(self.year, self.month, 1);
        first.map_or(31, |first| first.days_in_month().unsigned_abs())
    }

    /// Returns the day of this month, from 1, on which `at` lies in `zone`. What was booked after its end, for a turn that
    /// began in it, lies on its last day.
    pub fn day_of(self, at: Moment, zone: &TimeZone) -> u8 {
        let at_month = Month::of(at, zone);
        match at_month.cmp(&self) {
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Greater => self.days(),
            std::cmp::Ordering::Equal => Timestamp::from_millisecond(at.0)
                .map_or(1, |at| at.to_zoned(zone.clone()).day().unsigned_abs()),
        }
    }

    /// Returns the moment at which the next month begins in `zone`, when budgets start anew.
    pub fn ends_at(self, zone: &TimeZone) -> Moment {
        let (year, month) = if self.month == 12 {
            (self.year.saturating_add(1), 1)
        } else {
            (self.year, self.month + 1)
        };
        jiff::civil::Date::new(year, month, 1)
            .ok()
            .and_then(|first| first.to_zoned(zone.clone()).ok())
            .map_or(Moment(i64::MAX), |zoned| {
                Moment(zoned.timestamp().as_millisecond())
            })
    }
}

impl std::fmt::Display for Month {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

impl std::str::FromStr for Month {
    type Err = NotAMonth;

    fn from_str(text: &str) -> Result<Month, NotAMonth> {
        let wrong = || NotAMonth(text.to_owned());
        let (year, month) = text.trim().split_once('-').ok_or_else(wrong)?;
        let month = Month {
            year: year.parse().map_err(|_| wrong())?,
            month: month.parse().map_err(|_| wrong())?,
        };
        let is_one = (2000..=9999).contains(&month.year) && (1..=12).contains(&month.month);
        is_one.then_some(month).ok_or_else(wrong)
    }
}

/// Why a text is no month.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no month: write it as 2026-11")]
pub struct NotAMonth(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Moment {
        Moment(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    #[test]
    fn a_month_begins_and_ends_where_its_zone_says() {
        let table = [
            // Fourteen hours ahead of UTC: November is over there first.
            (
                "Pacific/Kiritimati",
                "2026-11-30T09:59:59Z",
                "2026-11",
                "2026-11-30T10:00:00Z",
            ),
            (
                "Pacific/Kiritimati",
                "2026-11-30T10:00:00Z",
                "2026-12",
                "2026-12-31T10:00:00Z",
            ),
            // Summer ends on 25 October 2026 in Berlin: the month ends by winter time.
            (
                "Europe/Berlin",
                "2026-10-01T00:00:00Z",
                "2026-10",
                "2026-10-31T23:00:00Z",
            ),
            (
                "Europe/Berlin",
                "2026-09-30T21:59:59Z",
                "2026-09",
                "2026-09-30T22:00:00Z",
            ),
            (
                "Europe/Berlin",
                "2026-10-31T22:59:59Z",
                "2026-10",
                "2026-10-31T23:00:00Z",
            ),
            (
                "Europe/Berlin",
                "2026-10-31T23:00:00Z",
                "2026-11",
                "2026-11-30T23:00:00Z",
            ),
            (
                "America/New_York",
                "2028-02-29T23:00:00Z",
                "2028-02",
                "2028-03-01T05:00:00Z",
            ),
            (
                "UTC",
                "2026-12-31T23:59:59Z",
                "2026-12",
                "2027-01-01T00:00:00Z",
            ),
            // Summer time ends within the month's last night: 1 November 2026 in Havana begins at 00:00 daylight time.
            (
                "America/Havana",
                "2026-10-31T12:00:00Z",
                "2026-10",
                "2026-11-01T04:00:00Z",
            ),
        ];
        for (name, moment, month, ends) in table {
            let zone = zone(name);
            let found = Month::of(at(moment), &zone);
            assert_eq!(found.to_string(), month, "{name} {moment}");
            assert_eq!(found.ends_at(&zone), at(ends), "{name} {moment}");
        }
    }

    #[test]
    fn what_is_booked_after_a_months_end_lies_on_its_last_day() {
        let berlin = zone("Europe/Berlin");
        let october: Month = "2026-10".parse().unwrap();
        let table = [
            ("2026-10-01T00:30:00Z", 1),
            ("2026-10-24T22:30:00Z", 25),
            ("2026-10-25T22:59:59Z", 25),
            ("2026-10-25T23:00:00Z", 26),
            ("2026-10-31T22:59:59Z", 31),
            ("2026-10-31T23:10:00Z", 31),
            ("2026-09-30T12:00:00Z", 1),
        ];
        for (moment, day) in table {
            assert_eq!(october.day_of(at(moment), &berlin), day, "{moment}");
        }
    }

    #[test]
    fn a_month_is_read_as_it_is_written() {
        let month: Month = " 2028-02 ".parse().unwrap();
        assert_eq!((month.to_string(), month.days()), ("2028-02".into(), 29));
        for text in [
            "",
            "2026",
            "2026-13",
            "2026-0",
            "26-11",
            "x-1",
            "2026-11-01",
        ] {
            assert!(text.parse::<Month>().is_err(), "{text}");
        }
    }
}
