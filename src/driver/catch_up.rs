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

/// The name of the fact that tells the newest message seen.
const SEEN_FACT: &str = "newest_message";

/// Notes that a message was seen. It reaches the disk with the next flush.
pub fn note(house: &House, message: MessageId) -> Result<(), StoreError> {
    match newest(house)? {
        Some(newest) if newest >= message => Ok(()),
        _ => house.store.put_fact(SEEN_FACT, &message.to_string()),
    }
}

/// Returns the id after which messages are read again, and forgets what was seen too long ago to come again. A house that
/// has never seen a message missed none.
pub fn begin(house: &House) -> Result<MessageId, StoreError> {
    let now = house.now();
    house.store.forget_intake_before(before(now, REMEMBERED))?;
    let Some(newest) = newest(house)? else {
        return Ok(MessageId::at(now));
    };
    let from = before(newest.made_at(), OVERLAP);
    Ok(MessageId::at(from.max(before(now, OLDEST))))
}

fn newest(house: &House) -> Result<Option<MessageId>, StoreError> {
    Ok(house
        .store
        .fact(SEEN_FACT)?
        .and_then(|id| id.parse().ok())
        .map(MessageId))
}

fn before(at: Moment, span: Duration) -> Moment {
    Moment(at.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
}
