//! A request by command is shown in a message of ours before it becomes a turn. It is kept from before it is shown until it is a
//! turn, so that a message whose arrival nobody saw is found again and belongs to it.

use std::time::Duration;

use crate::domain::ids::MessageId;
use crate::domain::request::Undecided;
use crate::present::notice;

use super::house::House;
use super::ports::{Nonce, Ours, Post, SurfaceError};

/// The longest wait before Discord is asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Shows a request. Nothing may follow from it before it is kept.
pub(super) async fn show(house: &House, waiting: &Undecided) -> Result<MessageId, SurfaceError> {
    let post = Post {
        text: text_of(waiting),
        ..Post::default()
    };
    let nonce = Nonce::of(waiting.turn, "q");
    let surface = &house.ports.surface;
    surface.post(waiting.place.channel, post, nonce).await
}

fn text_of(waiting: &Undecided) -> String {
    let project = waiting.project.as_deref().unwrap_or_default();
    let request = &waiting.request;
    notice::asks(request.author.member, project, &request.text)
}

/// Looks for the message that shows a request, for as long as Discord is away. `None`: it was not shown, or the house closes.
pub(super) async fn find(house: &House, waiting: &Undecided) -> Result<Option<MessageId>, Closing> {
    let after = MessageId(waiting.turn.0);
    let text = text_of(waiting);
    let mut wait = Duration::from_secs(1);
    loop {
        let ours = house.ports.surface.ours_after(waiting.place.channel, after);
        match ours.await {
            Ok(ours) => return Ok(ours.iter().find(|it| shows(it, &text)).map(|it| it.id)),
            Err(SurfaceError::Away(_)) => {
                tokio::select! {
                    () = house.cancel.cancelled() => return Err(Closing),
                    () = tokio::time::sleep(wait) => wait = (wait * 2).min(LONGEST_WAIT),
                }
            }
            Err(_) => return Ok(None),
        }
    }
}

/// The house closes: the next one looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closing;

/// Whatever the platform made of spaces and marks: the words are the same.
fn shows(message: &Ours, text: &str) -> bool {
    let words = |text: &str| -> String { text.chars().filter(|c| c.is_alphanumeric()).collect() };
    !message.silent
        && message.reply_to.is_none()
        && message.buttons.is_empty()
        && words(&message.text) == words(text)
}
