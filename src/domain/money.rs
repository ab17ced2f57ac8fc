//! Money in whole micro-dollars. Floats end here: amounts that others give as such are rounded once.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// An amount of US dollars, in millionths of a dollar.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Usd(pub u64);

impl Usd {
    /// No money.
    pub const ZERO: Usd = Usd(0);

    /// Returns the amount nearest to `dollars`; negative and unreal numbers are zero.
    pub fn from_dollars(dollars: f64) -> Usd {
        if dollars.is_finite() && dollars > 0.0 {
            Usd((dollars * 1e6).round() as u64)
        } else {
            Usd::ZERO
        }
    }

    /// Returns what is left after `spent`, nothing if more was spent.
    pub fn less(self, spent: Usd) -> Usd {
        Usd(self.0.saturating_sub(spent.0))
    }
}

impl Add for Usd {
    type Output = Usd;

    fn add(self, other: Usd) -> Usd {
        Usd(self.0.saturating_add(other.0))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Usd>>(all: I) -> Usd {
        all.fold(Usd::ZERO, Add::add)
    }
}

impl fmt::Display for Usd {
    /// Writes `$1.00` for whole cents and `$0.0312` otherwise, rounded up to four places so that no cost looks free.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(10_000) {
            write!(
                f,
                "${}.{:02}",
                self.0 / 1_000_000,
                self.0 % 1_000_000 / 10_000
            )
        } else {
            let tenths = self.0.div_ceil(100);
            write!(f, "${}.{:04}", tenths / 10_000, tenths % 10_000)
        }
    }
}
