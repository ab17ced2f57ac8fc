//! What is said about how a chat works, about access that is asked for, and about budgets that run out.
//!
//! Sentences only. Typed texts stand in code spans, people are named as mentions.

use crate::domain::chat::Listen;
use crate::domain::grant::Level;
use crate::domain::ids::{MemberId, Slug, ThreadId};
use crate::domain::money::Usd;
use crate::domain::time::Moment;

// ---- Chats

/// Says that a command about a chat was used where there is none.
pub fn no_chat_here() -> String {
    "There is no chat here. Use this in the thread of a chat, or mention me to begin one."
        .to_owned()
}

/// Says that the next request begins a new conversation.
pub fn new_conversation(runs: bool) -> String {
    let running = if runs {
        " The turn that runs now still belongs to the old one."
    } else {
        ""
    };
    format!(
        "✓ The next request begins a new conversation; the agent will know nothing of this one. The files stay.{running}"
    )
}

/// Says that a chat has another model.
pub fn model_changed(before: &str, now: &str) -> String {
    format!(
        "✓ This chat now uses `{now}`. Before: `{before}`. Whoever may not use it gets the first model open to them."
    )
}

/// Says which messages count.
pub fn listens(listen: Listen) -> String {
    match listen {
        Listen::All => {
            "✓ Every message here of somebody who may run turns now counts as a request, unless it is for another person."
        }
        Listen::Mentions => "✓ Only messages here that mention me count as requests now.",
    }
    .to_owned()
}

/// Says that a chat has a project already.
pub fn project_is_there(project: &Slug) -> String {
    format!("`{project}` is one of this chat's projects already.")
}

/// Says that a chat can have no more projects.
pub fn too_many_projects(most: usize) -> String {
    format!("This chat has {most} projects already, and can have no more. Begin another chat.")
}

/// Says that a chat has one more project.
pub fn project_added(project: &Slug) -> String {
    format!(
        "✓ `{project}` is now one of this chat's projects. It counts in the turns of those who hold `chat` on it."
    )
}

/// Says that no other thread can be opened from here.
pub fn cannot_fork_here() -> String {
    "No other thread can be opened from here. Mention me in a channel to begin another chat."
        .to_owned()
}

/// Returns the message that another chat's thread hangs on.
pub fn forks(member: MemberId, from: ThreadId) -> String {
    format!("<@{member}> goes on from <#{from}> in a chat of their own:")
}

/// Returns the name of the thread.
pub fn fork_name(project: &Slug) -> String {
    format!("Fork · {project}")
}

/// Says that a chat can be copied only while nothing changes it.
pub fn fork_later() -> String {
    "Something still runs or waits in this chat. Fork it once that is done.".to_owned()
}

/// Whether conversation and files follow into another chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// They do.
    All,
    /// There is no conversation yet.
    NothingYet,
    /// The other chat runs in another account.
    OtherAccount,
    /// The conversation may be about a project that the other chat does not have.
    LeftOut,
    /// They could not be copied.
    Failed,
}

/// Says what the other chat is and what it is not.
pub fn forked(thread: ThreadId, follows: Follows, shares: bool, left_out: &[Slug]) -> String {
    let anew = match follows {
        Follows::All => None,
        Follows::NothingYet => {
            Some("There is no conversation to take along yet, so it begins anew.")
        }
        Follows::OtherAccount => Some(
            "It runs in an account of your own, so the conversation begins anew: tell the agent what it has to know.",
        ),
        Follows::LeftOut => Some(
            "The conversation may be about a project that you may not use, so it begins anew: tell the agent what it has to know.",
        ),
        Follows::Failed => Some(
            "The conversation could not be copied, so it begins anew: tell the agent what it has to know.",
        ),
    };
    let files = match (shares, anew) {
        (true, _) => {
            "It works in the same project folder as this chat: what one changes, the other sees."
        }
        (false, None) => {
            "It works in a copy of this chat's files, and neither sees what the other changes from now on."
        }
        (false, Some(_)) => "It works in a folder of its own, without this chat's files.",
    };
    let conversation = anew.unwrap_or("The agent knows what was said here so far.");
    let mut text =
        format!("✓ <#{thread}> is yours, with the same projects and model. {conversation} {files}");
    if !left_out.is_empty() {
        let names: Vec<String> = left_out.iter().map(|slug| format!("`{slug}`")).collect();
        text.push_str(&format!(
            " Left out, since you do not hold `chat` there: {}.",
            names.join(", ")
        ));
    }
    text
}

// ---- Which project

/// Asks in which project a request is to run.
pub fn which_project(member: MemberId, more: bool) -> String {
    let rest = if more {
        " Yours is not in the list? Ask with `/ask`."
    } else {
        ""
    };
    format!(
        "<@{member}>, in which project? Only you can choose; your request waits fifteen minutes.{rest}"
    )
}

/// Says that somebody else is asked.
pub fn not_asked_of_you() -> String {
    "This is asked of the author of the request alone.".to_owned()
}

/// Says that the request is not waiting any more.
pub fn not_waiting() -> String {
    "That request does not wait any more. Please ask again.".to_owned()
}

/// Says what was chosen, in place of the question.
pub fn project_chosen(project: &Slug) -> String {
    format!("-# ✓ in `{project}`")
}

// ---- Access

/// Says that access was asked for.
pub fn access_asked() -> String {
    "✓ The admins have your request. You are told here what they answer.".to_owned()
}

/// Says that access was asked for already.
pub fn access_asked_before() -> String {
    "You asked for this within the last day. The admins have it; please wait for their answer."
        .to_owned()
}

/// Says that the admins did not get a question.
pub fn admins_away() -> String {
    "I could not reach the admin channel, so the admins have not got your request. Please ask again in a while."
        .to_owned()
}

/// Says that there is no place where admins are told.
pub fn nobody_to_ask() -> String {
    "There is no admin channel that I could write to. Please ask an admin yourself.".to_owned()
}

/// Says that somebody holds what they ask for.
pub fn holds_already(project: &Slug, level: Level) -> String {
    format!("You hold **{level}** on `{project}` already.")
}

/// Says that somebody who can run turns already needs an admin for more.
pub fn holds_some_already() -> String {
    "You can run turns in a project already: `/projects` lists yours. For another one, please ask an admin.".to_owned()
}

/// Tells the admins who asks for what; `name` was chosen by that person.
pub fn access_wanted(member: MemberId, name: &str, project: Option<&Slug>, channel: u64) -> String {
    let name = super::plain::code(name, 40);
    match project {
        Some(project) => {
            format!("<@{member}> ({name}) asks for access to `{project}`, in <#{channel}>.")
        }
        None => format!(
            "<@{member}> ({name}) asks for access to a project, in <#{channel}>. Choose which one they get:"
        ),
    }
}

/// Asks the admins what somebody is to get on the project that was chosen.
pub fn access_choose_level(member: MemberId, project: &Slug) -> String {
    format!("<@{member}> asks for access. What do they get on `{project}`?")
}

/// Tells the admin who chose the project how to go on.
pub fn choose_level(project: &Slug) -> String {
    format!("Now choose what they get on `{project}`.")
}

/// Says that a button cannot help, and what can.
pub fn use_grant() -> String {
    "I cannot change that message. Please use `/grant` instead.".to_owned()
}

/// Tells the admins what became of it.
pub fn access_decided(
    member: MemberId,
    by: MemberId,
    project: Option<&Slug>,
    level: Option<Level>,
) -> String {
    match (project, level) {
        (Some(project), Some(level)) => {
            format!("✓ <@{by}> granted <@{member}> **{level}** on `{project}`.")
        }
        (Some(project), None) => format!("✗ <@{by}> said no to <@{member}> about `{project}`."),
        (None, _) => format!("✗ <@{by}> said no to <@{member}>."),
    }
}

/// Tells the person who asked what became of it.
pub fn access_answer(
    member: MemberId,
    by: MemberId,
    project: Option<&Slug>,
    level: Option<Level>,
) -> String {
    match (project, level) {
        (Some(project), Some(Level::View)) => format!(
            "<@{member}>, <@{by}> granted you **view** on `{project}`: you can see it in `/projects`, and how turns went."
        ),
        (Some(project), Some(level)) => {
            format!(
                "<@{member}>, <@{by}> granted you **{level}** on `{project}`. Mention me with what you want done."
            )
        }
        (Some(project), None) => {
            format!("<@{member}>, your request for access to `{project}` was declined.")
        }
        (None, _) => format!("<@{member}>, your request for access was declined."),
    }
}

/// Says that somebody else decided before.
pub fn decided_already() -> String {
    "This was decided already.".to_owned()
}

// ---- Budgets

/// Tells a guest how far the month's budget is used up. It names them: nobody is notified by a text that does not.
pub fn guest_warning(
    member: MemberId,
    percent: u8,
    spent: Usd,
    budget: Usd,
    resets: Moment,
) -> String {
    let resets = resets.seconds();
    match percent {
        100 => format!(
            "⚠ <@{member}>, your budget for this month is used up ({spent} of {budget}). It starts anew <t:{resets}:R>; an admin can raise it."
        ),
        percent => format!(
            "⚠ <@{member}>, you have used {percent} % of your budget for this month ({spent} of {budget}). It starts anew <t:{resets}:R>."
        ),
    }
}

/// Tells the admins how far a project's month is used up.
pub fn project_warning(
    percent: u8,
    project: &Slug,
    spent: Usd,
    budget: Usd,
    resets: Moment,
) -> String {
    let resets = resets.seconds();
    match percent {
        100 => format!(
            "⚠ The budget of `{project}` for this month is used up ({spent} of {budget}): only owners can run turns there. It \
             starts anew <t:{resets}:R>; `/budget project` raises it."
        ),
        percent => format!(
            "⚠ {percent} % of the budget of `{project}` for this month is used ({spent} of {budget}). It starts anew <t:{resets}:R>."
        ),
    }
}
