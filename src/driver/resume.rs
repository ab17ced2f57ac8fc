//! Finds out what an earlier process had sent when it ended.

use std::time::Duration;

use crate::domain::chat::Chat;
use crate::domain::ids::MessageId;
use crate::domain::turn_record::TurnRecord;

use super::house::House;
use super::ports::Button;

/// How long Discord is asked for a live message: a turn that is picked up must not wait for a Discord that is away.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the live message that an earlier process made for this turn and had no time to note. Its button names the turn.
pub async fn live_message(house: &House, chat: &Chat, record: &TurnRecord) -> Option<MessageId> {
    let after = record.request.message.unwrap_or(MessageId(record.id.0));
    let button = Button::Stop(record.id).id();
    let asked = house.ports.surface.ours_after(chat.place, after);
    let ours = tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?;
    ours.into_iter()
        .find(|message| message.buttons.contains(&button))
        .map(|message| message.id)
}
