//! What tokens cost, by model.

use crate::domain::money::Usd;

use super::usage::Usage;

/// What one web search costs.
///
/// Source: Claude Code CLI 2.1.197 run against a provider that reports three searches (0.03 USD).
pub const WEB_SEARCH: Usd = Usd(10_000);

/// Prices per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Input that is neither written to nor read from the cache.
    pub input: Usd,
    /// Output, thinking included.
    pub output: Usd,
    /// Input written to the cache for five minutes.
    pub cache_write: Usd,
    /// Input written to the cache for an hour.
    pub cache_write_1h: Usd,
    /// Input read from the cache.
    pub cache_read: Usd,
}

impl Price {
    /// Returns the price with the provider's usual ratios: cache writes 1.25 (five minutes) and 2 (an hour) times the
    /// input, cache reads a tenth.
    pub const fn usual(input: Usd, output: Usd) -> Price {
        Price {
            input,
            output,
            cache_write: Usd(input.0 / 4 * 5),
            cache_write_1h: Usd(input.0 * 2),
            cache_read: Usd(input.0 / 10),
        }
    }

    /// Returns what this usage costs.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let hour = usage.cache_write_1h.min(usage.cache_write);
        Cost::of(usage.input, self.input)
            + Cost::of(usage.output, self.output)
            + Cost::of(usage.cache_write - hour, self.cache_write)
            + Cost::of(hour, self.cache_write_1h)
            + Cost::of(usage.cache_read, self.cache_read)
            + Cost::searches(usage.web_searches)
    }

    /// Returns the dearest way in which one million tokens of input can be charged.
    pub fn dearest_input(&self) -> Usd {
        self.input
            .max(self.cache_write)
            .max(self.cache_write_1h)
            .max(self.cache_read)
    }
}

/// An exact amount, in millionths of a micro-dollar: tokens times a price per million. Rounded only where it leaves
/// the meter, so that many small requests add up to what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(u64);

impl Cost {
    /// Nothing.
    pub const ZERO: Cost = Cost(0);

    /// Returns what `tokens` cost at `per_million`.
    pub fn of(tokens: u64, per_million: Usd) -> Cost {
        Cost(tokens.saturating_mul(per_million.0))
    }

    /// Returns what this many web searches cost.
    pub fn searches(count: u64) -> Cost {
        Cost::from(WEB_SEARCH).times(count)
    }

    /// Returns the nearest whole micro-dollar.
    pub fn round(self) -> Usd {
        Usd(self.0.saturating_add(500_000) / 1_000_000)
    }

    /// Returns what is left after `other`, nothing if that was more.
    pub fn less(self, other: Cost) -> Cost {
        Cost(self.0.saturating_sub(other.0))
    }

    /// Returns how many tokens can be had for this at `per_million`.
    pub fn buys(self, per_million: Usd) -> u64 {
        self.0.checked_div(per_million.0).unwrap_or(u64::MAX)
    }

    /// Returns half of it.
    pub fn half(self) -> Cost {
        Cost(self.0 / 2)
    }

    /// Returns this amount so many times.
    pub fn times(self, count: u64) -> Cost {
        Cost(self.0.saturating_mul(count))
    }
}

impl From<Usd> for Cost {
    fn from(amount: Usd) -> Cost {
        Cost(amount.0.saturating_mul(1_000_000))
    }
}

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost(self.0.saturating_add(other.0))
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(all: I) -> Cost {
        all.fold(Cost::ZERO, std::ops::Add::add)
    }
}

/// The prices of model families.
///
/// A family is named by a piece of its models' names: `claude-haiku-4-5-20251001` is of the family `haiku`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// The piece of a model's name that makes it one of these.
    piece: String,
    /// The family that it belongs to.
    family: String,
    price: Price,
}

impl Default for Prices {
    /// Returns the prices that Claude Code CLI 2.1.197 itself charges, found by running it against a provider with known
    /// usage; there was no surcharge for long input. The first Opus models, which that CLI no longer asks for, cost
    /// three times as much (the provider's price list).
    fn default() -> Prices {
        let usual = |input, output| Price::usual(Usd(input), Usd(output));
        let mut prices = Prices(Vec::new());
        prices.add("haiku", "haiku", usual(1_000_000, 5_000_000));
        prices.add("sonnet", "sonnet", usual(3_000_000, 15_000_000));
        prices.add("opus", "opus", usual(5_000_000, 25_000_000));
        for first in ["3-opus", "opus-4-0", "opus-4-1", "opus-4-2025"] {
            prices.add(first, "opus", usual(15_000_000, 75_000_000));
        }
        prices.add("fable", "fable", usual(10_000_000, 50_000_000));
        prices.add("mythos", "mythos", usual(10_000_000, 50_000_000));
        prices
    }
}

impl Prices {
    /// Returns these prices with those of whole families replaced or added.
    pub fn with(mut self, families: impl IntoIterator<Item = (String, Price)>) -> Prices {
        for (family, price) in families {
            self.0.retain(|entry| entry.family != family);
            self.add(&family, &family, price);
        }
        self
    }

    /// Returns the price of a model, the dearest where its name fits several; `None`: it has no known price.
    pub fn price_of(&self, model: &str) -> Option<&Price> {
        let fitting = self.0.iter().filter(|entry| model.contains(&entry.piece));
        fitting
            .map(|entry| &entry.price)
            .max_by_key(|price| (price.output, price.input))
    }

    /// Returns the families that have a price, each once.
    pub fn families(&self) -> Vec<String> {
        let mut families: Vec<String> = Vec::new();
        for entry in &self.0 {
            if !families.contains(&entry.family) {
                families.push(entry.family.clone());
            }
        }
        families
    }

    fn add(&mut self, piece: &str, family: &str, price: Price) {
        self.0.push(Entry {
            piece: piece.to_owned(),
            family: family.to_owned(),
            price,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: u64 = 1_000_000;

    #[test]
    fn every_class_of_tokens_costs_what_the_cli_charges_for_it() {
        // model, then a million tokens of: input, output, cache read, cache write, cache write for an hour,
        // a million written of which a quarter for an hour, three searches (as total_cost_usd said, in micro-dollars).
        let table = [
            (
                "claude-haiku-4-5-20251001",
                [
                    1_000_000, 5_000_000, 100_000, 1_250_000, 2_000_000, 1_437_500, 30_000,
                ],
            ),
            (
                "claude-sonnet-5",
                [
                    3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000, 4_312_500, 30_000,
                ],
            ),
            (
                "claude-opus-4-8",
                [
                    5_000_000, 25_000_000, 500_000, 6_250_000, 10_000_000, 7_187_500, 30_000,
                ],
            ),
            (
                "claude-fable-5",
                [
                    10_000_000, 50_000_000, 1_000_000, 12_500_000, 20_000_000, 14_375_000, 30_000,
                ],
            ),
        ];
        let usage = |f: fn(&mut Usage)| {
            let mut usage = Usage::default();
            f(&mut usage);
            usage
        };
        let classes = [
            usage(|u| u.input = MILLION),
            usage(|u| u.output = MILLION),
            usage(|u| u.cache_read = MILLION),
            usage(|u| u.cache_write = MILLION),
            usage(|u| (u.cache_write, u.cache_write_1h) = (MILLION, MILLION)),
            usage(|u| (u.cache_write, u.cache_write_1h) = (MILLION, MILLION / 4)),
            usage(|u| u.web_searches = 3),
        ];
        for (model, costs) in table {
            let prices = Prices::default();
            let price = prices.price_of(model).unwrap();
            let ours = classes.each_ref().map(|usage| price.cost(usage).round().0);
            assert_eq!(ours, costs, "{model}");
        }
    }

    #[test]
    fn the_first_opus_models_cost_three_times_as_much() {
        let prices = Prices::default();
        for model in [
            "claude-opus-4-1-20250805",
            "claude-opus-4-20250514",
            "claude-3-opus-20240229",
        ] {
            assert_eq!(prices.price_of(model).unwrap().output, Usd(75_000_000));
        }
    }

    #[test]
    fn a_model_of_no_family_has_no_price() {
        assert_eq!(Prices::default().price_of("gpt-5"), None);
        assert_eq!(Prices::default().price_of(""), None);
    }

    #[test]
    fn a_configured_price_replaces_a_whole_family_or_adds_one() {
        let cheap = Price::usual(Usd(10), Usd(20));
        let prices =
            Prices::default().with([("opus".to_owned(), cheap), ("local".to_owned(), cheap)]);
        assert_eq!(prices.price_of("claude-opus-4-1"), Some(&cheap));
        assert_eq!(prices.price_of("local-7b"), Some(&cheap));
        assert_eq!(
            prices.price_of("claude-sonnet-5"),
            Prices::default().price_of("claude-sonnet-5")
        );
    }

    #[test]
    fn a_cost_is_rounded_to_the_nearest_micro_dollar_once() {
        let one = Cost::of(1, Usd(300_000));
        assert_eq!(one.round(), Usd(0));
        assert_eq!((one + one).round(), Usd(1));
    }
}
