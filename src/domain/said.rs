//! What must be said to people and has not arrived yet, beside answers.

use serde::{Deserialize, Serialize};

use super::ids::{ChannelId, MemberId, MessageId};
use super::time::Moment;

/// One message of ours that is kept until it arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Its nonce, which also names it.
    pub nonce: String,
    /// Where it belongs.
    pub channel: ChannelId,
    /// Its text.
    pub text: String,
    /// What it replies to.
    pub reply_to: Option<MessageId>,
    /// The one person whom it may notify.
    pub ping: Option<MemberId>,
    /// Its buttons, by their ids.
    pub buttons: Vec<String>,
    /// Its menu, if it has one.
    #[serde(default)]
    pub menu: Option<PendingMenu>,
    /// Since when it waits.
    pub since: Moment,
}

/// The menu of a message that is kept until it arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingMenu {
    /// Its id, which says what is chosen.
    pub id: String,
    /// What can be chosen: what people read, and the value that comes back.
    pub options: Vec<(String, String)>,
}
