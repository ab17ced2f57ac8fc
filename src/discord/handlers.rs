//! Who is called when something comes in. Plain functions over plain types: this room knows neither desk nor office.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::admin::Act;
use crate::domain::grant::{Level, Subject};
use crate::domain::guest::Person;
use crate::domain::ids::InteractionId;
use crate::domain::venue::Place;
use crate::driver::inbound::{Inbound, InboundAsk, InboundChat, InboundPress, InboundStop, Reply};

/// Something that is called with a question of somebody's and returns what is said back to them.
pub type Answering<Question> = Arc<dyn Fn(Question) -> BoxFuture<'static, Reply> + Send + Sync>;

/// Something that returns what could complete an option.
pub type Completing = Arc<dyn Fn(Completion) -> BoxFuture<'static, Vec<Choice>> + Send + Sync>;

/// Everybody who is called. Each decides by itself what the caller may do: nothing was checked before, except that the
/// server is a configured one.
#[derive(Clone)]
pub struct Handlers {
    /// Takes what the gateway reports, in its order. Must hand over at once.
    pub inbound: Arc<dyn Fn(Inbound) + Send + Sync>,
    /// `/ask`.
    pub ask: Answering<InboundAsk>,
    /// One of our buttons.
    pub press: Answering<InboundPress>,
    /// `/stop`.
    pub stop: Answering<InboundStop>,
    /// Commands about the chat of a thread.
    pub chat: Answering<InboundChat>,
    /// Everything else.
    pub office: OfficeCalls,
}

/// The commands that are about people, grants and money.
#[derive(Clone)]
pub struct OfficeCalls {
    /// `/grant`.
    pub grant: Answering<GrantCall>,
    /// `/revoke`.
    pub revoke: Answering<RevokeCall>,
    /// `/grants`.
    pub grants: Answering<Caller>,
    /// `/me`.
    pub me: Answering<Caller>,
    /// `/usage`.
    pub usage: Answering<Caller>,
    /// Everything that needs no more than its own words.
    pub act: Answering<ActCall>,
    /// Projects that the caller may see.
    pub complete_projects: Completing,
    /// Models that the caller may use.
    pub complete_models: Completing,
}

/// Who used a command, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The interaction.
    pub id: InteractionId,
    /// Where.
    pub place: Place,
    /// Who, with the roles held at that moment.
    pub by: Person,
}

/// One of the office's commands.
#[derive(Clone, Debug, PartialEq)]
pub struct ActCall {
    /// Who used it.
    pub caller: Caller,
    /// What is wanted.
    pub act: Act,
}

/// `/grant`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantCall {
    /// Who gives.
    pub caller: Caller,
    /// Who is to hold it.
    pub subject: Subject,
    /// The project's slug as typed; not validated by Discord.
    pub project: String,
    /// How much.
    pub level: Level,
    /// For how long, as typed.
    pub for_how_long: Option<String>,
}

/// `/revoke`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeCall {
    /// Who takes.
    pub caller: Caller,
    /// Who holds it.
    pub subject: Subject,
    /// The project's slug as typed; not validated by Discord.
    pub project: String,
}

/// An option that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Who types, and where.
    pub caller: Caller,
    /// The command, without its slash.
    pub command: String,
    /// What was typed so far.
    pub typed: String,
    /// The project option of the same command, as far as it was filled in.
    pub project: Option<String>,
}

/// One proposal for an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is shown.
    pub name: String,
    /// What is taken.
    pub value: String,
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handlers")
    }
}

impl std::fmt::Debug for OfficeCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OfficeCalls")
    }
}
