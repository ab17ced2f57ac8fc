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
