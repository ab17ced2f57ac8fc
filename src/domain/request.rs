//! What somebody asked, in our words.

use serde::{Deserialize, Serialize};

use super::guest::Person;
use super::ids::{AttachmentId, MemberId, MessageId, TurnId};
use super::text::is_blank;
use super::time::Moment;
use super::venue::Place;

/// A file that came with a request. Fetched when the turn starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Discord's id of the file.
    pub id: AttachmentId,
    /// The message it hangs on, from which an expired address is refreshed; `None` for a file given to a command.
    pub message: Option<MessageId>,
    /// The name as uploaded: not trusted.
    pub name: String,
    /// Bytes, as Discord says.
    pub size: u64,
    /// Signed address that expires.
    pub url: String,
}

/// Something that somebody else wrote, passed on as a quotation because a holder replied to it or forwarded it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// What its author is called; `None` for forwards, whose author Discord does not tell.
    pub author: Option<String>,
    /// Who wrote it, if that is known.
    #[serde(default)]
    pub by: Option<MemberId>,
    /// What they wrote.
    pub text: String,
    /// The message that it was, as long as what becomes of it there counts here as well; `None` for what was quoted on purpose.
    #[serde(default)]
    pub message: Option<MessageId>,
}

/// One request: a message that counts as one, a `/ask`, or a retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Who asks, and pays.
    pub author: Person,
    /// The words, without the bot's mention.
    pub text: String,
    /// Files that came with it.
    pub attachments: Vec<Attachment>,
    /// What it replies to or forwards.
    pub quotes: Vec<Quote>,
    /// What holders said in the thread since the last request, without asking.
    #[serde(default)]
    pub context: Vec<Quote>,
    /// Things that have no text of their own, described: stickers, polls, voice messages.
    pub described: Vec<String>,
    /// The message that the answer replies to: what its author wrote, or what shows a request made by command;
    /// `None` until that is posted.
    pub message: Option<MessageId>,
    /// The model asked for with it, if any.
    pub model: Option<String>,
}

impl Request {
    /// Returns whether there is nothing in it that an agent could work on.
    pub fn is_empty(&self) -> bool {
        is_blank(&self.text)
            && self.attachments.is_empty()
            && self.quotes.is_empty()
            && self.described.is_empty()
    }

    /// Follows what became of a message that may be quoted as said before; with nothing in its text it is gone.
    pub fn revise_context(&mut self, message: MessageId, text: &str) {
        for quote in &mut self.context {
            if quote.message == Some(message) {
                text.clone_into(&mut quote.text);
            }
        }
        self.context.retain(|quote| !is_blank(&quote.text));
    }

    /// Returns what it carries of others' words: what was said before it, and what it replies to or forwards.
    pub fn words_of_others(&self) -> impl Iterator<Item = &Quote> {
        self.context
            .iter()
            .chain(&self.quotes)
            .filter(|quote| quote.by != Some(self.author.member))
    }
}

/// A request that is not a turn yet: it waits until its author has said which project it is about, or, made by a command, until
/// it is shown. Nothing is held or charged for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecided {
    /// The turn that it will be.
    pub turn: TurnId,
    /// What was asked.
    pub request: Request,
    /// Where.
    pub place: Place,
    /// Since when it waits.
    pub at: Moment,
    /// The project that a command named, as typed; `None`: it waits for its author to choose one.
    #[serde(default)]
    pub project: Option<String>,
}
