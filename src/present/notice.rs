//! The sentences that the bot says of its own accord; those about access and money stand in the `office` files beside this.
//! None holds an error's raw text.
//!
//! Names that people chose stand in code spans, so that nothing in them is mark-up.

use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;

use crate::domain::grant::{Level, Refusal};
use crate::domain::ids::{ChannelId, MemberId, Slug, ThreadId};
use crate::domain::money::Usd;
use crate::domain::time::Moment;
use crate::turn::collect::{LeftOut, Plan};
use crate::turn::end::{End, Failure};
use crate::turn::event::{Collected, Stop, Trouble};

use super::page::LIMIT;
use super::plain::{code, cut, escape, is_blank, one_line};
use super::units::{bytes, counted};

/// Code points of a foreign name in a sentence.
const NAME: usize = 80;
/// Code points of a foreign explanation in a sentence.
const EXPLANATION: usize = 300;
/// Code points of a thread's name (Discord's limit).
const THREAD_NAME: usize = 100;
/// Left-out files that are named one by one.
const LISTED: usize = 12;

/// Mentions, custom emoji and times, as they stand in a message's source.
static DISCORD_TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"<(?:@[!&]?\d+|#\d+|a?:\w+:\d+|t:-?\d+(?::\w)?|/[^<>]{1,100}:\d+)>").ok()
});

// ---- Refusals

/// Returns why a request was refused, who can change that, and what is left.
pub fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NoGrant {
            project,
            need,
            holds,
        } => no_grant(project.as_ref(), *need, *holds),
        Refusal::Expired { project, at } => format!(
            "Your access to {} ended {}. An admin can renew it with `/grant`.",
            slug(project),
            relative(*at)
        ),
        Refusal::Suspended => "You are suspended here. An admin can lift that.".to_owned(),
        Refusal::UnknownProject { asked, choices } => {
            format!(
                "There is no project {} that you can use. {}",
                code(asked, NAME),
                yours(choices)
            )
        }
        Refusal::WhichProject { choices } => {
            format!("Which project? Ask again with `/ask`. {}", yours(choices))
        }
        Refusal::OtherProject { chat } => format!(
            "This thread works in {}. Ask in a channel for a thread in another project.",
            slug(chat)
        ),
        Refusal::Model { asked, allowed } => format!(
            "The model {} is not open to you here. You can use {}; an admin can change that.",
            code(asked, NAME),
            list(allowed.iter().map(|model| code(model, NAME)))
        ),
        Refusal::GuestBudget { budget, .. } if budget.0 == 0 => {
            "You have no budget yet. An admin can give you one.".to_owned()
        }
        Refusal::GuestBudget {
            used,
            budget,
            resets,
        } => format!(
            "Your budget for this month is used up ({used} of {budget}). It starts anew {}; an admin can raise it.",
            relative(*resets)
        ),
        Refusal::ProjectBudget { project, resets } => format!(
            "The budget of {} for this month is used up. It starts anew {}; an admin can raise it.",
            slug(project),
            relative(*resets)
        ),
        Refusal::Held { project: None } => {
            "What is left of your budget is held for turns of yours that are running. Ask again once one of them is done."
                .to_owned()
        }
        Refusal::Held {
            project: Some(project),
        } => format!(
            "What is left of the budget of {} is held for turns that are running. Ask again once one of them is done.",
            slug(project)
        ),
        Refusal::Empty => empty_request(),
        Refusal::QueueFull { depth } => format!(
            "{} in this thread already. Ask again once one of them is done.",
            match depth {
                1 => "One request waits".to_owned(),
                depth => format!("{depth} requests wait"),
            }
        ),
        Refusal::TooLarge { name, size, limit } => format!(
            "{} is too large: it has {}, and at most {} are taken. Nothing was run.",
            code(name, NAME),
            bytes(*size),
            bytes(*limit)
        ),
        Refusal::NotYourTurn => {
            "Only the author of this request, the owner of this chat and admins can stop it."
                .to_owned()
        }
        Refusal::NotYourChat => {
            "Only the owner of this chat and admins can change how it works. Ask one of them, or start a chat of your own."
                .to_owned()
        }
        Refusal::Paused(reason) if is_blank(reason) => {
            "New turns are paused by an admin. Ask again later.".to_owned()
        }
        Refusal::Paused(reason) => format!(
            "New turns are paused by an admin: {}. Ask again later.",
            escape(cut(&one_line(reason), EXPLANATION).trim_end_matches('.'))
        ),
        Refusal::LeftServer => {
            "Its author is not on this server any more, so it was not run.".to_owned()
        }
    }
}

fn no_grant(project: Option<&Slug>, need: Level, holds: Option<Level>) -> String {
    match (project, holds) {
        (Some(project), Some(holds)) => format!(
            "You hold `{}` on {}, and this needs `{}`. An admin can grant it with `/grant`.",
            holds,
            slug(project),
            need
        ),
        (Some(project), None) => format!(
            "You have no access to {}. An admin can grant `{}` on it with `/grant`.",
            slug(project),
            need
        ),
        (None, _) => format!(
            "You have no access to any project here. An admin can grant `{}` on one with `/grant`.",
            need
        ),
    }
}

fn slug(project: &Slug) -> String {
    format!("`{project}`")
}

fn yours(choices: &[Slug]) -> String {
    if choices.is_empty() {
        "You can use no project yet; an admin can grant one with `/grant`.".to_owned()
    } else {
        let most = choices.iter().take(25).map(slug);
        format!("You can use {}.", list(most))
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    }
}

fn relative(at: Moment) -> String {
    format!("<t:{}:R>", at.seconds())
}

fn not_confined() -> String {
    "Commands cannot be confined in this project's sandbox at the moment, so only owners can run turns in it.".to_owned()
}

// ---- Requests

/// Returns what is said to a request that holds nothing.
pub fn empty_request() -> String {
    "There is nothing to work on in that message. Mention me together with what you want done."
        .to_owned()
}

/// Returns what is said where Discord withholds a message's content.
pub fn withheld() -> String {
    "I cannot read that message: Discord withholds its content from me. An owner can switch on **Message Content \
     Intent** for this bot in the developer portal; until then, use `/ask`."
        .to_owned()
}

/// Returns what is said where a permission is missing.
pub fn missing_permission(permission: &str) -> String {
    format!(
        "I lack the permission {} here. A server admin can give it to me in this channel's settings.",
        code(permission, NAME)
    )
}

/// Returns what is said where no thread could be opened.
pub fn answered_in_place() -> String {
    "No thread can be opened here, so I answer in place.".to_owned()
}

// ---- Stop

/// Returns what the presser of Stop reads.
pub fn stopping() -> String {
    "Stopping…".to_owned()
}

/// Returns what `/stop` says where nothing is to be stopped.
pub fn nothing_is_running() -> String {
    "Nothing is running here.".to_owned()
}

/// Returns what Details says of a turn that is not kept any more.
pub fn details_gone() -> String {
    "The steps of this turn are not kept any more.".to_owned()
}

/// Returns what `/details` says in a chat that never had a turn.
pub fn no_turn_yet() -> String {
    "There was no turn in this chat yet.".to_owned()
}

/// Returns what Details says while the sandbox does not answer.
pub fn no_details_now() -> String {
    "The steps of this turn cannot be read at the moment. Try again in a while.".to_owned()
}

// ---- Ends

/// Returns what is said of an end, beside whatever the agent said; `None` where the answer speaks for itself.
pub fn end(end: &End) -> Option<String> {
    match end {
        End::Answered => None,
        End::Refused(why) => Some(refusal(why)),
        End::NotStarted(why) => Some(trouble(why)),
        End::Stopped(why) => Some(stopped(*why)),
        End::Early { .. } => {
            Some("The agent ended early, without saying that it was done. Ask again to go on.".to_owned())
        }
        End::Cut => {
            Some("The connection to the provider broke off, so this may be incomplete. Ask again to go on.".to_owned())
        }
        End::Failed(why) => Some(failure(why)),
        End::SandboxLost => Some(
            "The sandbox has been away for too long, so this turn was given up. An admin has to look into that; this \
             chat can go on later."
                .to_owned(),
        ),
    }
}

/// Returns what details say of an agent that counts otherwise than the books: both amounts to the micro-dollar.
pub fn counts_differ(booked: Usd, reported: Usd) -> String {
    let exact = |amount: Usd| format!("${}.{:06}", amount.0 / 1_000_000, amount.0 % 1_000_000);
    format!(
        "Booked: {}. By the agent's own account: {}.",
        exact(booked),
        exact(reported)
    )
}

/// Returns why a turn was stopped.
pub fn stopped(why: Stop) -> String {
    match why {
        Stop::By(member) => format!("Stopped by <@{member}>."),
        Stop::TimeUp => "Stopped: it ran for as long as a turn may. Ask again to go on.".to_owned(),
        Stop::Silent => {
            "Stopped: nothing was heard of the agent for too long. Ask again to go on.".to_owned()
        }
        Stop::Limit(hold) => {
            format!("Stopped: the turn reached its limit of {hold}. Ask again to go on.")
        }
        Stop::ThreadGone => "Stopped: the thread is gone.".to_owned(),
        Stop::Revoked => "Stopped: the author's access has ended.".to_owned(),
        Stop::WrongMode => {
            "Stopped: the agent did not keep to its permissions. An admin has to look into that.".to_owned()
        }
        Stop::Tampered => {
            "Stopped: the record of this turn was changed while it ran. An admin has to look into that."
                .to_owned()
        }
    }
}

/// Returns what is said of a run that could not be started.
pub fn trouble(trouble: &Trouble) -> String {
    // An answer of the sandbox may be lost, and the run have begun all the same: then nothing is said of money.
    let mend = "An admin has to mend that.";
    let free = format!("{mend} Nothing was charged.");
    match trouble {
        Trouble::SandboxAway => format!("The sandbox is unavailable. Ask again later. {mend}"),
        Trouble::SandboxRefused => format!("The sandbox refuses to work with me. {mend}"),
        Trouble::AgentMissing => format!("The agent's program is missing in the sandbox. {free}"),
        Trouble::Workspace(_) => format!("The project's directory cannot be used. {free}"),
        Trouble::Attachment { name, why } => attachment(name, why),
        Trouble::NotConfined(_) => format!("{} {free}", not_confined()),
        Trouble::Lost => closed_after_restart(),
        Trouble::Full => format!("The sandbox has no room left. {mend}"),
        Trouble::Other(_) => format!("The turn could not be started. {mend}"),
    }
}

/// Returns what is said of a file that could not be brought in.
pub fn attachment(name: &str, why: &str) -> String {
    let why = cut(&one_line(why), EXPLANATION);
    let why = escape(why.trim_end_matches('.'));
    format!(
        "{} could not be brought in: {why}. Nothing was run, and nothing was charged.",
        code(name, NAME)
    )
}

/// Returns what people are told of the agent's failure.
pub fn failure(failure: &Failure) -> String {
    match failure {
        Failure::Key => "The provider does not let me in at the moment. An admin has to mend that.".to_owned(),
        Failure::Credit => "The provider's account is out of credit. An admin has to mend that.".to_owned(),
        Failure::UsageLimit(Some(resets)) => format!(
            "The provider's usage limit is reached. It resets {}.",
            escape(&cut(&one_line(resets), NAME))
        ),
        Failure::UsageLimit(None) => "The provider's usage limit is reached. Ask again later.".to_owned(),
        Failure::RateLimit => "The provider takes no more requests for now. Ask again in a few minutes.".to_owned(),
        Failure::Overloaded => "The provider is overloaded. Ask again in a few minutes.".to_owned(),
        Failure::Provider => "The provider cannot be reached or is faulty. Ask again in a few minutes.".to_owned(),
        Failure::Model => "The provider does not know this chat's model. An admin has to mend that.".to_owned(),
        Failure::PromptTooLong => {
            "This conversation has become too long for the model. `/new` begins a fresh one in this thread.".to_owned()
        }
        Failure::TooLarge => "Something in this request is too large for the provider. Ask with less.".to_owned(),
        Failure::AnswerTooLong => {
            "The answer became longer than the model may write, so it ends here. Ask for the rest.".to_owned()
        }
        Failure::Declined => "The model declined this request. Ask in other words, or for something else.".to_owned(),
        Failure::MaxTurns => "The agent made as many calls as one turn may make. Ask again to go on.".to_owned(),
        Failure::LimitReached | Failure::MaxBudget => "The money for this turn is used up. Ask again to go on.".to_owned(),
        Failure::SessionLost | Failure::SessionTaken => {
            "This chat's conversation with the agent cannot be continued. `/new` begins a fresh one in this thread.".to_owned()
        }
        Failure::Interrupted => "The agent was interrupted from outside. Ask again to go on.".to_owned(),
        Failure::Killed => {
            "The agent was killed, most likely because the sandbox ran out of memory. An admin has to look into that. Ask again to go \
             on, with less at once."
                .to_owned()
        }
        Failure::Full => {
            "The sandbox has no room left, so the agent could not go on. An admin has to mend that.".to_owned()
        }
        Failure::Poisoned(text) => format!(
            "The provider refused this conversation: {}. If it refuses again, `/new` begins a fresh one in this thread.",
            code(text.trim_end_matches('.'), EXPLANATION)
        ),
        Failure::Other(text) if is_blank(text) => "The agent failed without saying why.".to_owned(),
        Failure::Other(text) => format!("The agent failed: {}", code(text, EXPLANATION)),
    }
}

/// Returns what is said where the agent did its work and said nothing.
pub fn no_text() -> String {
    "Finished without text.".to_owned()
}

/// Returns what is said where the earlier conversation could not be taken up.
pub fn renewed() -> String {
    "-# The earlier conversation could not be taken up again; the agent began a new one and knows only this request."
        .to_owned()
}

/// Returns what is said of a turn that a restart of the bot left without an end.
pub fn closed_after_restart() -> String {
    "This turn was interrupted by a restart and could not be picked up again. Ask again to repeat it.".to_owned()
}

// ---- Files

/// Returns what is said of the files that do not come with the answer, each with its reason; `None` if all come.
pub fn left_out(plan: &Plan, collected: &Collected) -> Option<String> {
    let mut lines: Vec<String> = plan
        .left_out
        .iter()
        .take(LISTED)
        .map(|file| {
            let why = match file.why {
                LeftOut::TooLarge { limit } => format!("larger than {}", bytes(limit)),
                LeftOut::TooMany { limit } => {
                    format!("beyond the first {}", counted(limit, "file", "files"))
                }
            };
            format!(
                "-# Left out: {} ({}, {why})",
                code(&file.shown, NAME),
                bytes(file.size)
            )
        })
        .collect();
    let unnamed = plan.left_out.len().saturating_sub(LISTED);
    if unnamed > 0 {
        lines.push(format!(
            "-# Left out: {} more",
            counted(unnamed, "file", "files")
        ));
    }
    if collected.more {
        lines.push("-# There may be more files: the search stopped at its limit.".to_owned());
    }
    if collected.failed.is_some() {
        lines.push(
            "-# The files of this turn could not be looked for; they are still in the workspace."
                .to_owned(),
        );
    }
    (!lines.is_empty()).then(|| cut(&lines.join("\n"), LIMIT))
}

/// Returns what is said of a file that could not be sent after all.
pub fn file_not_sent(name: &str, why: &str) -> String {
    format!(
        "-# Left out: {} ({})",
        code(name, NAME),
        escape(&cut(&one_line(why), EXPLANATION))
    )
}

// ---- Threads

/// Returns a thread's name made of a request: one line of 1 to 100 code points, without mentions and mark-up.
pub fn thread_name(text: &str) -> String {
    let bare = match &*DISCORD_TOKENS {
        Some(tokens) => tokens.replace_all(text, " ").into_owned(),
        None => text.to_owned(),
    };
    let bare = bare
        .replace("@everyone", "everyone")
        .replace("@here", "here");
    let first = bare
        .lines()
        .map(clean_line)
        .find(|line| !is_blank(line))
        .unwrap_or_default();
    if first.is_empty() {
        "New request".to_owned()
    } else {
        cut(&first, THREAD_NAME)
    }
}

fn clean_line(line: &str) -> String {
    let text: String = one_line(line)
        .chars()
        .filter(|c| !matches!(c, '*' | '`' | '|' | '~'))
        .collect();
    let text = text.trim_start_matches(['>', '#', '-', ' ']);
    one_line(text)
}

// ---- Requests and chats

/// The mark on a request that waits for its turn.
pub const WAITING_MARK: &str = "⏳";

/// The mark on a request that joined the running turn.
pub const JOINED_MARK: &str = "⤵️";

/// The name of a thread whose own name a filter of the server refused.
pub const PLAIN_THREAD_NAME: &str = "New request";

/// What stands in place of a text that a filter of the server refused.
pub const FILTERED: &str = "A filter of this server refuses the text of this part.";

/// Returns why an answer is given in the channel instead of in a thread of its own.
pub fn no_thread(permission: &str) -> String {
    format!(
        "{}\n{}",
        missing_permission(permission),
        answered_in_place()
    )
}

/// Returns what a live message shows while the bot is away.
pub fn interrupted() -> String {
    "⏸ I am restarting. The work goes on, and so will this message.".to_owned()
}

/// Returns what is said of requests that were made while the bot was away, too long ago to be answered now.
pub fn too_old(limit: Duration) -> String {
    format!(
        "I was away when you asked this, and I take up nothing that is older than {}. Ask again if it still matters.",
        super::units::duration(limit)
    )
}

/// Returns what is said to a Retry that has nothing to retry any more.
pub fn nothing_to_retry() -> String {
    "There is nothing to try again here.".to_owned()
}

/// Returns what the agent is asked by somebody who lets another's request be tried again.
pub fn asks_again(name: &str) -> String {
    format!(
        "Do once more what {} asked: it is quoted or attached above.",
        code(name, NAME)
    )
}

/// Returns what is said to somebody who lets a turn be tried again.
pub fn trying_again() -> String {
    "Trying again. You pay for this one.".to_owned()
}

/// Returns what is said when something of ours broke.
pub fn broken() -> String {
    "⚠ Something went wrong on my side, so this may be done or not. The reason is in my log; please look before you try \
     again."
        .to_owned()
}

/// Returns what is said where a command did its work and has nothing to say.
pub fn done() -> String {
    "Done.".to_owned()
}

/// Returns `text` with the news that the file which belongs to it does not come.
pub fn without_file(text: &str) -> String {
    let text = format!("{text}\n-# Discord did not take the file.");
    text.trim_start().to_owned()
}

/// Returns what stands in the menu of projects before one is chosen.
pub fn choose_project() -> String {
    "Choose a project".to_owned()
}

/// Returns what is said to a command that the bot does not have any more.
pub fn unknown_command() -> String {
    "I do not know this command any more. Restart your Discord app to get the new list.".to_owned()
}

/// Returns what is said to a command whose options cannot be read.
pub fn unreadable_options() -> String {
    "I could not read what you filled in. Please try again.".to_owned()
}

/// Returns what is said to a button or a form of an older program.
pub fn does_nothing() -> String {
    "That does nothing any more. Please write to me again, or use a slash command.".to_owned()
}

/// Returns what is said to a command in a place that the bot does not listen to.
pub fn not_here() -> String {
    "I do not work in this place.".to_owned()
}

/// Returns what is said to a command that arrived twice.
pub fn seen_already() -> String {
    "I have this request already.".to_owned()
}

/// Returns the message that shows a request made by command: the others cannot see a command's words.
pub fn asks(member: MemberId, project: &str, text: &str) -> String {
    let quoted: String = text.lines().map(|line| format!("> {line}\n")).collect();
    cut(
        &format!(
            "<@{member}> asks ({}):\n{}",
            code(project, NAME),
            quoted.trim_end()
        ),
        LIMIT,
    )
}

/// Returns why a request made by command was not taken: nothing can be said in this place.
pub fn cannot_say(permission: Option<&str>) -> String {
    match permission {
        Some(permission) => missing_permission(permission),
        None => "I cannot write here at the moment. Nothing was started.".to_owned(),
    }
}

/// Returns what is said to somebody of whose request by command it is not known whether it can be seen.
pub fn asked_in_doubt() -> String {
    "Discord does not tell me whether your request can be seen. If it appears here, I answer it; if not, ask again."
        .to_owned()
}

/// Returns what is said to somebody whose request by command was taken.
pub fn asked(thread: ThreadId) -> String {
    format!("The answer comes in <#{thread}>.")
}

/// Returns what is said to somebody who took a waiting request back.
pub fn taken_back() -> String {
    "Taken back: that request had not begun.".to_owned()
}

/// Returns what is said to a button that the bot does not know.
pub fn unknown_button() -> String {
    "I do not know this button.".to_owned()
}

/// Returns what is said in the channel to somebody whose answer can be shown to nobody else, and not to them any more.
pub fn line_closed(member: MemberId) -> String {
    format!(
        "<@{member}> I have an answer for you alone, but Discord does not let me show it any more. If it matters, use the \
         command or button again."
    )
}

/// Returns what stands above a turn's details.
pub fn here_are_details() -> String {
    "Every step of this turn:".to_owned()
}

/// Returns what is said in the channel above about an answer that its thread does not take.
pub fn answer_undeliverable(member: MemberId, thread: ThreadId) -> String {
    format!(
        "<@{member}> The answer to your request cannot be written in <#{thread}>: the thread is locked, or I may not write there."
    )
}

/// Says in the channel above that an answer waits for a permission.
pub fn answer_waits(member: MemberId, thread: ThreadId, right: &str) -> String {
    format!(
        "<@{member}> The answer to your request waits: in <#{thread}> I need the permission **{right}** again."
    )
}

/// Tells the admins that the bot has lost a permission somewhere.
pub fn place_closed(place: ChannelId, right: &str) -> String {
    format!(
        "I need the permission **{right}** in <#{place}>. What is left to be said there waits for it, for a day at most"
    )
}

/// What the admins are told before the bot ends itself.
pub const DISK_FAILED: &str = "the disk of my records failed or is full, so I end. Free some space; I go on where I was once I am \
                               started again";

/// Returns what the admins are told.
pub fn alarm(what: &str) -> String {
    format!("⚠ {}", cut(what, EXPLANATION))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::ids::MemberId;
    use crate::turn::collect::Skipped;

    fn site() -> Slug {
        "site".parse().unwrap()
    }

    fn every_refusal() -> Vec<Refusal> {
        let resets = Moment(1_796_083_200_000);
        let budget = |used, budget| Refusal::GuestBudget {
            used: Usd(used),
            budget: Usd(budget),
            resets,
        };
        let grant = |project, holds| Refusal::NoGrant {
            project,
            need: Level::Chat,
            holds,
        };
        vec![
            grant(None, None),
            grant(Some(site()), None),
            grant(Some(site()), Some(Level::View)),
            Refusal::Expired {
                project: site(),
                at: resets,
            },
            Refusal::Suspended,
            Refusal::UnknownProject {
                asked: "a`b\n@everyone".into(),
                choices: vec![site()],
            },
            Refusal::UnknownProject {
                asked: "x".into(),
                choices: vec![],
            },
            Refusal::WhichProject {
                choices: vec![site(), "notes".parse().unwrap()],
            },
            Refusal::Model {
                asked: "opus".into(),
                allowed: vec!["haiku".into(), "sonnet".into()],
            },
            budget(0, 0),
            budget(5_031_200, 5_000_000),
            Refusal::ProjectBudget {
                project: site(),
                resets,
            },
            Refusal::Held { project: None },
            Refusal::Held {
                project: Some(site()),
            },
            Refusal::Empty,
            Refusal::QueueFull { depth: 5 },
            Refusal::TooLarge {
                name: "a.zip".into(),
                size: 60 << 20,
                limit: 10 << 20,
            },
            Refusal::NotYourTurn,
        ]
    }

    #[test]
    fn every_refusal_says_why_and_what_helps() {
        let all: Vec<String> = every_refusal().iter().map(refusal).collect();
        insta::assert_snapshot!(all.join("\n"), @r"
        You have no access to any project here. An admin can grant `chat` on one with `/grant`.
        You have no access to `site`. An admin can grant `chat` on it with `/grant`.
        You hold `view` on `site`, and this needs `chat`. An admin can grant it with `/grant`.
        Your access to `site` ended <t:1796083200:R>. An admin can renew it with `/grant`.
        You are suspended here. An admin can lift that.
        There is no project `a'b @everyone` that you can use. You can use `site`.
        There is no project `x` that you can use. You can use no project yet; an admin can grant one with `/grant`.
        Which project? Ask again with `/ask`. You can use `site`, `notes`.
        The model `opus` is not open to you here. You can use `haiku`, `sonnet`; an admin can change that.
        You have no budget yet. An admin can give you one.
        Your budget for this month is used up ($5.0312 of $5.00). It starts anew <t:1796083200:R>; an admin can raise it.
        The budget of `site` for this month is used up. It starts anew <t:1796083200:R>; an admin can raise it.
        What is left of your budget is held for turns of yours that are running. Ask again once one of them is done.
        What is left of the budget of `site` is held for turns that are running. Ask again once one of them is done.
        There is nothing to work on in that message. Mention me together with what you want done.
        5 requests wait in this thread already. Ask again once one of them is done.
        `a.zip` is too large: it has 60 MiB, and at most 10 MiB are taken. Nothing was run.
        Only the author of this request, the owner of this chat and admins can stop it.
        ");
    }

    #[test]
    fn no_end_shows_an_errors_own_text_but_a_bounded_quotation() {
        let inner = "/home/secret: Connection refused (os error 111)".to_owned();
        for trouble_of in [Trouble::Workspace, Trouble::NotConfined, Trouble::Other] {
            let said = trouble(&trouble_of(inner.clone()));
            assert!(!said.contains("os error"), "{said}");
        }
        let long = failure(&Failure::Other("x".repeat(50_000)));
        assert!(long.chars().count() < 400);
        assert_eq!(
            failure(&Failure::Other("bad `thing`\nhere".into())),
            "The agent failed: `bad 'thing' here`"
        );
        assert_eq!(
            attachment("a.csv", "it is gone."),
            "`a.csv` could not be brought in: it is gone. Nothing was run, and nothing was charged."
        );
    }

    #[test]
    fn limits_say_when_they_reset_and_stops_who_did_it() {
        let limit = Failure::UsageLimit(Some("1:57am (UTC)".into()));
        assert_eq!(
            failure(&limit),
            "The provider's usage limit is reached. It resets 1:57am (UTC)."
        );
        assert_eq!(stopped(Stop::By(MemberId(7))), "Stopped by <@7>.");
        assert_eq!(end(&End::Answered), None);
    }

    #[test]
    fn files_that_are_left_out_are_listed_with_their_reasons() {
        let skipped = |shown: &str, why| Skipped {
            shown: shown.into(),
            size: 11 << 20,
            why,
        };
        let mut plan = Plan::default();
        let mut collected = Collected::default();
        assert_eq!(left_out(&plan, &collected), None);
        plan.left_out = vec![
            skipped("out/`big`.bin", LeftOut::TooLarge { limit: 10 << 20 }),
            skipped("z.txt", LeftOut::TooMany { limit: 20 }),
        ];
        collected.more = true;
        insta::assert_snapshot!(left_out(&plan, &collected).unwrap(), @r"
        -# Left out: `out/'big'.bin` (11 MiB, larger than 10 MiB)
        -# Left out: `z.txt` (11 MiB, beyond the first 20 files)
        -# There may be more files: the search stopped at its limit.
        ");
        plan.left_out = vec![skipped(&"x".repeat(500), LeftOut::TooMany { limit: 20 }); 100];
        let note = left_out(&plan, &collected).unwrap();
        assert!(note.chars().count() <= LIMIT);
        assert!(note.ends_with("its limit."), "{note}");
        assert!(note.contains("88 files more"), "{note}");
    }

    #[test]
    fn thread_names_are_clean() {
        let cases = [
            ("plot the sales in data.csv", "plot the sales in data.csv"),
            ("\n\n", "New request"),
            ("<@123> <@&9> ", "New request"),
            ("@everyone come", "everyone come"),
            ("> [!NOTE] x", "[!NOTE] x"),
            ("## **Title**\nmore", "Title"),
            ("\u{202e}evil\u{200b}", "evil"),
            ("```\ncode\n```", "code"),
            ("see <#5> and <:blob:7>!", "see and !"),
        ];
        for (text, name) in cases {
            assert_eq!(thread_name(text), name, "{text:?}");
        }
        assert_eq!(thread_name(&"😀".repeat(100)), "😀".repeat(100));
        assert_eq!(thread_name(&"x".repeat(300)).chars().count(), 100);
    }

    proptest! {
        #[test]
        fn every_thread_has_a_name(text in "(\\PC|\n|<@1>|👨‍👩‍👧|\u{202e}){0,150}") {
            let name = thread_name(&text);
            prop_assert!((1..=100).contains(&name.chars().count()));
            prop_assert!(!is_blank(&name) && !name.contains('\n') && !name.contains("@everyone"));
        }
    }
}
