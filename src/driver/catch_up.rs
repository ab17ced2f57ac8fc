//! From where on messages are read again that came while nobody listened.

use std::time::Duration;

use crate::domain::ids::MessageId;
use crate::domain::time::Moment;
use crate::store::StoreError;

use super::house::House;

/// What is older than this is ignored, however it arrives: what was seen is remembered for longer, so nothing is done twice.
pub const OLDEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long what was seen is remembered.
const REMEMBERED: Duration = Duration::from_secs(26 * 60 * 60);

/// Messages are not always told of in the order of their ids.
const OVERLAP: Duration = Duration::from_secs(120);

/// What is this young is never too old, however late it comes and whatever is configured: it was not missed but heard.
const FRESH: Duration = Duration::from_secs(60);

/// The name of the fact that tells the newest message seen.
const SEEN_FACT: &str = "newest_message";

/// The name of the fact that tells from where a reading goes on that has not ended; blank when none does.
const READING_FACT: &str = "reading_from";

/// Returns how long after it was made a request is still served.
pub fn limit(house: &House) -> Duration {
    house.rules.limits.catch_up.max(FRESH)
}

/// Returns whether a request was made so long ago that its author is not served any more.
pub fn is_too_old(house: &House, age: Duration) -> bool {
    age > limit(house)
}

/// Notes that a message was seen. It reaches the disk with the next flush.
pub fn note(house: &House, message: MessageId) -> Result<(), StoreError> {
    // One from the future would let nothing be read again until then.
    let latest = MessageId::at(house.now());
    let message = message.min(latest);
    match known(house, SEEN_FACT)? {
        Some(newest) if (message..=latest).contains(&newest) => Ok(()),
        _ => house.store.put_fact(SEEN_FACT, &message.to_string()),
    }
}

/// Forgets what was seen too long ago to come again.
pub fn forget(house: &House) -> Result<(), StoreError> {
    let before = before(house.now(), REMEMBERED);
    house.store.forget_intake_before(before).map(drop)
}

/// Returns the id after which messages are read again, and forgets what was seen too long ago to come again. A house that
/// has never listened missed none; from now on it would.
pub fn begin(house: &House) -> Result<MessageId, StoreError> {
    let now = house.now();
    forget(house)?;
    let Some(newest) = known(house, SEEN_FACT)? else {
        let first = MessageId::at(now);
        note(house, first)?;
        return Ok(first);
    };
    // What is heard meanwhile is newer than what is still to be read, also for the next process.
    let unread = known(house, READING_FACT)?.map(MessageId::made_at);
    let from = before(newest.made_at().min(now), OVERLAP);
    let from = from.min(unread.unwrap_or(from));
    let from = MessageId::at(from.max(before(now, OLDEST)));
    house.store.put_fact(READING_FACT, &from.to_string())?;
    Ok(from)
}

/// Notes that everything since [`begin`] was read and taken in.
pub fn end(house: &House) -> Result<(), StoreError> {
    house.store.put_fact(READING_FACT, "")
}

fn known(house: &House, fact: &str) -> Result<Option<MessageId>, StoreError> {
    let id = house.store.fact(fact)?;
    Ok(id.and_then(|id| id.parse().ok()).map(MessageId))
}

fn before(at: Moment, span: Duration) -> Moment {
    Moment(at.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::super::fakes::Lodge;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_after_the_very_first_start_is_missed_even_if_nothing_was_heard_by_then() {
        let lodge = Lodge::open().await;
        let house = &lodge.house;
        let first = begin(house).unwrap();
        end(house).unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;
        let asked = MessageId::at(house.now());
        tokio::time::advance(Duration::from_secs(600)).await;
        let second = begin(house).unwrap();
        assert!(second <= first && second < asked);
    }

    #[tokio::test(start_paused = true)]
    async fn an_id_from_the_future_does_not_keep_what_is_missed_from_being_read() {
        let lodge = Lodge::open().await;
        let house = &lodge.house;
        let went = house.now();
        note(house, MessageId::at(went + OLDEST * 365)).unwrap();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(begin(house).unwrap().made_at(), before(went, OVERLAP));
        // One that an earlier program noted is replaced.
        let future = MessageId::at(went + OLDEST * 365).to_string();
        house.store.put_fact(SEEN_FACT, &future).unwrap();
        end(house).unwrap();
        note(house, MessageId::at(went)).unwrap();
        assert_eq!(begin(house).unwrap().made_at(), before(went, OVERLAP));
    }
}
