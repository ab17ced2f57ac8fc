//! Prices what the stream alone tells of an agent's use of the provider: where no meter counts, and no result says what it cost.

use crate::domain::money::Usd;
use crate::meter::{Cost, Prices, Usage};
use crate::turn::work::Answer;

/// Returns what these answers cost; `None`: there are none, or one is of a model whose price nobody knows.
pub fn of<'a>(prices: &Prices, answers: impl Iterator<Item = &'a Answer>) -> Option<Usd> {
    let costs: Vec<Cost> = answers
        .map(|answer| {
            let price = prices.price_of(answer.model.as_deref()?)?;
            let tokens = &answer.tokens;
            Some(price.cost(&Usage {
                input: tokens.input,
                output: tokens.output,
                cache_write: tokens.cache_write,
                cache_write_1h: tokens.cache_write_1h,
                cache_read: tokens.cache_read,
                web_searches: tokens.web_searches,
                unpriced: false,
            }))
        })
        .collect::<Option<_>>()?;
    let total: Cost = costs.iter().copied().sum();
    (!costs.is_empty()).then(|| total.round())
}
