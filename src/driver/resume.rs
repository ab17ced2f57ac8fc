//! Finds out what an earlier process, or a request whose answer was lost, had sent.

use crate::domain::chat::Chat;
use crate::domain::ids::{ChannelId, MessageId, TurnId};
use crate::domain::turn_record::TurnRecord;

use super::ports::{Button, Surface, SurfaceError};

/// Returns the message after which everything stands that was said about this turn.
pub fn beginning(record: &TurnRecord) -> MessageId {
    record.request.message.unwrap_or(MessageId(record.id.0))
}

/// Returns the live message that was made for this turn, if one was. Its button names the turn.
pub async fn live_message(
    surface: &dyn Surface,
    place: ChannelId,
    turn: TurnId,
    after: MessageId,
) -> Result<Option<MessageId>, SurfaceError> {
    let button = Button::Stop(turn).id();
    let ours = surface.ours_after(place, after).await?;
    Ok(ours
        .into_iter()
        .find(|message| message.buttons.contains(&button))
        .map(|message| message.id))
}

/// Returns the live message of a turn of which none is noted.
pub async fn unnoted(
    surface: &dyn Surface,
    chat: &Chat,
    record: &TurnRecord,
) -> Result<Option<MessageId>, SurfaceError> {
    live_message(surface, chat.place, record.id, beginning(record)).await
}
