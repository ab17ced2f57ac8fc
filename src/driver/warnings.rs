//! Tells guests and admins when a month's budget is nearly or wholly used up: each once a month.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::chat::Chat;
use crate::domain::ids::MemberId;
use crate::domain::ledger::Tally;
use crate::domain::money::Usd;
use crate::domain::turn_record::TurnRecord;
use crate::present::office_chats as words;
use crate::store::StoreError;

use super::house::House;
use super::notices;
use super::ports::{Nonce, Post};

/// Longer than any month: what was said of one month is not said again in it. The key names the month.
const ONCE: Duration = Duration::from_secs(40 * 24 * 60 * 60);

/// How far a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Four fifths of it.
    Nearly,
    /// All of it.
    Wholly,
}

impl Mark {
    /// Returns how far a budget is used up by what was spent; nothing for one that was never there.
    fn of(budget: Usd, spent: Usd) -> Option<Mark> {
        let (budget, spent) = (u128::from(budget.0), u128::from(spent.0));
        match () {
            () if budget == 0 => None,
            () if spent >= budget => Some(Mark::Wholly),
            () if spent * 5 >= budget * 4 => Some(Mark::Nearly),
            () => None,
        }
    }

    fn percent(self) -> u8 {
        match self {
            Mark::Nearly => 80,
            Mark::Wholly => 100,
        }
    }
}

/// Looks, after a turn was booked, whether somebody is to be warned. A warning that fails is no reason for a turn to fail.
pub fn after(house: &Arc<House>, chat: &Chat, record: &TurnRecord) {
    if let Err(error) = warn(house, chat, record) {
        tracing::error!(turn = %record.id, %error, "could not look whether a budget is used up");
    }
}

fn warn(house: &Arc<House>, chat: &Chat, record: &TurnRecord) -> Result<(), StoreError> {
    let Some(month) = record.month else {
        return Ok(());
    };
    let member = record.request.author.member;
    let resets = month.ends_at(&house.rules.zone);
    let usage = house.store.usage(member, &record.project, month)?;
    if let Some(budget) = guests_budget(house, member)?
        && let Some(mark) = due(
            house,
            &format!("guest/{member}/{month}"),
            budget,
            usage.guest,
        )?
    {
        let text = words::guest_warning(member, mark.percent(), usage.guest.spent, budget, resets);
        let post = Post {
            text,
            ping: Some(member),
            ..Post::default()
        };
        notices::say(house, chat.place, &post, Nonce::of(record.id, "bg"))?;
    }
    let catalogue = house
        .catalogue
        .with_budgets(&house.store.project_budgets()?);
    if let Some(budget) = catalogue.get(&record.project).and_then(|it| it.budget)
        && let Some(admins) = house.rules.admin_channel
        && let Some(mark) = due(
            house,
            &format!("project/{}/{month}", record.project),
            budget,
            usage.project,
        )?
    {
        let text = words::project_warning(
            mark.percent(),
            &record.project,
            usage.project.spent,
            budget,
            resets,
        );
        let post = Post {
            text,
            ..Post::default()
        };
        notices::say(house, admins, &post, Nonce::of(record.id, "bp"))?;
    }
    Ok(())
}

fn guests_budget(house: &House, member: MemberId) -> Result<Option<Usd>, StoreError> {
    if house.rules.is_owner(member) {
        return Ok(None);
    }
    let guest = house.store.guest(member)?;
    Ok(Some(guest.budget.unwrap_or(house.rules.limits.budget)))
}

/// Returns the mark that is reached and was not told yet. Who is told of the whole need not hear of four fifths later.
fn due(house: &House, of: &str, budget: Usd, tally: Tally) -> Result<Option<Mark>, StoreError> {
    let Some(mark) = Mark::of(budget, tally.spent) else {
        return Ok(None);
    };
    let now = house.now();
    let nearly = house.store.once(&format!("warned/80/{of}"), now, ONCE)?;
    let new = match mark {
        Mark::Nearly => nearly,
        Mark::Wholly => house.store.once(&format!("warned/100/{of}"), now, ONCE)?,
    };
    Ok(new.then_some(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_nearly_used_up_at_four_fifths_and_wholly_at_its_end() {
        let table = [
            (0, 0, None),
            (0, 5, None),
            (100, 79, None),
            (100, 80, Some(Mark::Nearly)),
            (100, 99, Some(Mark::Nearly)),
            (100, 100, Some(Mark::Wholly)),
            (100, 250, Some(Mark::Wholly)),
            (u64::MAX, u64::MAX - 1, Some(Mark::Nearly)),
        ];
        for (budget, spent, mark) in table {
            assert_eq!(
                Mark::of(Usd(budget), Usd(spent)),
                mark,
                "{spent} of {budget}"
            );
        }
    }
}
