//! What commands about projects, guests, spending and the house itself say, each at most 2000 code points.
//!
//! Sentences only; typed texts stand in code spans.

use std::fmt::Write as _;
use std::time::Duration;

use crate::domain::audit::{AuditEntry, LastRefusal};
use crate::domain::grant::{Grant, Level};
use crate::domain::ids::{MemberId, Slug};
use crate::domain::ledger::Tally;
use crate::domain::money::Usd;
use crate::domain::time::{Moment, Month};

use super::office::{cut, fit, one_line, purse, quoted, term};
use super::plain::escape;
use super::units;

/// What a foreign explanation is cut to, in code points.
const EXPLANATION: usize = 300;
/// What one side of an audit entry is cut to.
const SIDE: usize = 120;
/// Guests that are named one by one.
const NAMED: usize = 20;

/// One project as somebody sees it.
#[derive(Clone, Copy, Debug)]
pub struct ProjectLine<'a> {
    /// Its short name.
    pub slug: &'a Slug,
    /// Its title.
    pub title: &'a str,
    /// The level that the person holds.
    pub level: Level,
    /// What it has cost this month.
    pub spent: Usd,
    /// Its monthly budget; `None`: without limit.
    pub budget: Option<Usd>,
}

/// Lists the projects that a person may see.
pub fn projects(projects: &[ProjectLine<'_>]) -> String {
    if projects.is_empty() {
        return "You can see no project yet. An admin can grant you one.".to_owned();
    }
    let lines = projects.iter().map(|it| {
        let title = escape(&cut(&one_line(it.title.trim()), 60));
        let budget = it
            .budget
            .map_or(String::new(), |budget| format!(" of {budget}"));
        format!(
            "- `{}` · {title} · **{}** · {}{budget} this month",
            it.slug, it.level, it.spent
        )
    });
    fit("Your projects:".to_owned(), lines.collect(), "")
}

/// Everything that `/guest show` tells.
#[derive(Clone, Copy, Debug)]
pub struct AboutGuest<'a> {
    /// Who.
    pub member: MemberId,
    /// Whether it is an owner.
    pub is_owner: bool,
    /// Whether they are suspended.
    pub suspended: bool,
    /// Grants by name, expired ones included.
    pub grants: &'a [Grant],
    /// The model families they may use.
    pub models: &'a [String],
    /// Whether those were set for them.
    pub own_models: bool,
    /// Their monthly budget; `None`: without limit.
    pub budget: Option<Usd>,
    /// Whether that was set for them.
    pub own_budget: bool,
    /// How their month stands.
    pub month: Tally,
    /// When the next month begins.
    pub resets: Moment,
    /// What they were refused last.
    pub last_refusal: Option<&'a LastRefusal>,
    /// The present moment.
    pub now: Moment,
}

/// Tells admins what is kept about a guest.
pub fn guest(about: &AboutGuest<'_>) -> String {
    let rank = match (about.is_owner, about.suspended) {
        (true, _) => "is an **owner**: every project at `ship`, without a budget.",
        (false, true) => "is **suspended**. `/guest restore` lets them in again.",
        (false, false) => "is active.",
    };
    let mut lines: Vec<String> = about
        .grants
        .iter()
        .map(|grant| {
            let term = term(grant, about.now);
            format!("- `{}` · **{}** · {term}", grant.project, grant.level)
        })
        .collect();
    if lines.is_empty() {
        lines.push("No grant by name; roles may grant more.".to_owned());
    }
    let source = |own: bool| if own { "set for them" } else { "as configured" };
    let mut foot = format!(
        "Models: {} ({})\n{} ({})",
        about.models.join(", "),
        source(about.own_models),
        purse(about.budget, about.month, about.resets),
        source(about.own_budget)
    );
    if let Some(refusal) = about.last_refusal {
        let text = cut(&one_line(&refusal.text), EXPLANATION);
        let at = refusal.at.seconds();
        let _ = write!(foot, "\nLast refusal (<t:{at}:R>): {text}");
    }
    fit(format!("<@{}> {rank}", about.member), lines, &foot)
}

/// Says that owners cannot be suspended.
pub fn owners_stay() -> String {
    "An owner cannot be suspended: owners are named in the configuration.".to_owned()
}

/// Says that somebody is already as is wanted.
pub fn nothing_changed(member: MemberId, state: &str) -> String {
    format!("<@{member}> is {state} already; nothing was changed.")
}

/// Says that somebody was suspended or let in again.
pub fn suspended(member: MemberId, suspended: bool) -> String {
    if suspended {
        format!(
            "✓ <@{member}> is suspended. Whatever of theirs still runs is being stopped; grants and budget are kept."
        )
    } else {
        format!("✓ <@{member}> may use what was granted to them again.")
    }
}

/// Says that this is no model family.
pub fn no_family(wrong: &str) -> String {
    format!(
        "{} is no model family. Write up to ten names such as `haiku sonnet`, or leave them out for the configured ones.",
        quoted(wrong)
    )
}

/// Says that nothing is known about a model, and which families are known.
pub fn unknown_family(wrong: &str, known: &[String]) -> String {
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    cut(
        &format!(
            "I know no model {}. Known are {}; `provider.price` in the configuration adds others.",
            quoted(wrong),
            names.join(", ")
        ),
        1000,
    )
}

/// Says which models a guest may use now.
pub fn models_set(member: MemberId, before: &[String], now: &[String]) -> String {
    cut(
        &format!(
            "✓ <@{member}> may now use {}. Before: {}. What a project does not allow stays closed there.",
            now.join(", "),
            before.join(", ")
        ),
        1000,
    )
}

/// Says that a guest's budget is the configured one again.
pub fn budget_as_configured(member: MemberId, before: Option<Usd>, configured: Usd) -> String {
    let before = before.map_or("the same".to_owned(), |usd| usd.to_string());
    format!("✓ <@{member}> now has the configured {configured} a month. Before: {before}.")
}

/// Says what a project's budget is now.
pub fn project_budget_set(project: &Slug, before: Option<Usd>, now: Option<Usd>) -> String {
    let shown = |budget: Option<Usd>| {
        budget.map_or("no limit of its own".to_owned(), |usd| {
            format!("{usd} a month")
        })
    };
    format!(
        "✓ `{project}` now has {}. Before: {}. Owners are not bound by it.",
        shown(now),
        shown(before)
    )
}

/// Says that this is no month.
pub fn no_month(asked: &str) -> String {
    format!(
        "{} is no month. Write it as `2026-11`, or leave it out.",
        quoted(asked)
    )
}

/// Says that this is no project's name.
pub fn no_slug(asked: &str) -> String {
    format!("{} can be no project's name.", quoted(asked))
}

/// Everything that `/spend` tells.
#[derive(Clone, Copy, Debug)]
pub struct Spent<'a> {
    /// The month.
    pub month: Month,
    /// All that was spent.
    pub total: Usd,
    /// Whether some of it is an estimate.
    pub estimated: bool,
    /// What is held for running turns.
    pub held: Usd,
    /// Turns that were booked.
    pub turns: usize,
    /// By guest, the largest first.
    pub guests: &'a [(MemberId, Usd)],
    /// By project, the largest first.
    pub projects: &'a [(Slug, Usd)],
}

/// Tells admins what was spent.
pub fn spent(spent: &Spent<'_>) -> String {
    let turns = units::counted(spent.turns, "turn", "turns");
    let estimated = if spent.estimated { " (estimated)" } else { "" };
    let held = if spent.held == Usd::ZERO {
        String::new()
    } else {
        format!(", {} held for running turns", spent.held)
    };
    let head = format!(
        "{}: {}{estimated} in {turns}{held}.",
        spent.month, spent.total
    );
    let projects = spent.projects.iter().take(NAMED);
    let projects = projects.map(|(slug, sum)| format!("- `{slug}`: {sum}"));
    let guests = spent
        .guests
        .iter()
        .map(|(member, sum)| format!("- <@{member}>: {sum}"));
    fit(head, projects.chain(guests).collect(), "")
}

/// How a part of the house is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wellness {
    /// It answered, after this time.
    Well(Option<Duration>),
    /// What is wrong.
    Unwell(String),
    /// It was not needed yet.
    Unused,
}

/// Everything that `/status` tells.
#[derive(Clone, Debug)]
pub struct Status<'a> {
    /// Turns that run.
    pub running: usize,
    /// Turns that may run at once.
    pub most_running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Why new turns are paused, if they are.
    pub paused: Option<&'a str>,
    /// How Discord is.
    pub discord: Wellness,
    /// How the sandbox is.
    pub sandbox: Wellness,
    /// The program's version.
    pub version: &'a str,
    /// What the store takes on the disk.
    pub store_bytes: u64,
}

/// Tells admins how the house is.
pub fn status(status: &Status<'_>) -> String {
    let mut text = format!(
        "Innkeeper {} · {} of {} running, {} waiting",
        status.version, status.running, status.most_running, status.waiting
    );
    if let Some(why) = status.paused {
        let _ = write!(text, "\n⏸ New turns are paused{}", reason(why));
    }
    let _ = write!(text, "\nDiscord: {}", wellness(&status.discord));
    let _ = write!(text, "\nSandbox: {}", wellness(&status.sandbox));
    let _ = write!(text, "\nStore: {}", units::bytes(status.store_bytes));
    text
}

fn wellness(wellness: &Wellness) -> String {
    match wellness {
        Wellness::Well(Some(after)) => format!("✓ answers in {} ms", after.as_millis()),
        Wellness::Well(None) => "✓".to_owned(),
        Wellness::Unwell(why) => format!("✗ {}", escape(&cut(&one_line(why), EXPLANATION))),
        Wellness::Unused => "not used yet".to_owned(),
    }
}

fn reason(why: &str) -> String {
    if why.trim().is_empty() {
        ".".to_owned()
    } else {
        format!(": {}", escape(&cut(&one_line(why), EXPLANATION)))
    }
}

/// Says that new turns are paused, or not any more.
pub fn paused(why: Option<&str>, were: bool) -> String {
    match (why, were) {
        (Some(why), _) => format!(
            "⏸ New turns are paused{} Running ones go on. `/resume` ends it.",
            match reason(why) {
                reason if reason == "." => reason,
                reason => format!("{}.", reason.trim_end_matches('.')),
            }
        ),
        (None, true) => "✓ New turns start again.".to_owned(),
        (None, false) => "New turns were not paused.".to_owned(),
    }
}

/// Lists what admins did, newest first.
pub fn audit(entries: &[AuditEntry]) -> String {
    if entries.is_empty() {
        return "No admin has done anything yet.".to_owned();
    }
    let side = |side: &Option<String>| side.as_deref().map_or("nothing".to_owned(), audited);
    let lines = entries.iter().map(|entry| {
        format!(
            "- <t:{}:f> <@{}> {}: {} → {}",
            entry.at.seconds(),
            entry.by,
            audited(&entry.what),
            side(&entry.before),
            side(&entry.after)
        )
    });
    fit("The newest first:".to_owned(), lines.collect(), "")
}

/// Returns a side of an audit entry as code, but people, roles and moments as Discord shows them.
fn audited(text: &str) -> String {
    let text = cut(&one_line(text), SIDE);
    let mut shown: Vec<String> = Vec::new();
    let mut plain: Vec<&str> = Vec::new();
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        let number = words.peek().filter(|next| is_number(next));
        let written = match (word, number) {
            ("member", Some(id)) => format!("<@{id}>"),
            ("role", Some(id)) => format!("<@&{id}>"),
            ("until", Some(seconds)) => format!("until <t:{seconds}:f>"),
            _ => {
                plain.push(word);
                continue;
            }
        };
        words.next();
        as_code(&mut shown, &mut plain);
        shown.push(written);
    }
    as_code(&mut shown, &mut plain);
    shown.join(" ")
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Closes a run of plain words.
fn as_code(shown: &mut Vec<String>, plain: &mut Vec<&str>) {
    if !plain.is_empty() {
        shown.push(super::plain::code(&plain.join(" "), SIDE));
        plain.clear();
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::domain::grant::Subject;
    use crate::domain::samples::{ADA, OWNER, grant, slug, usd};

    const NOW: Moment = Moment(1_794_744_000_000);

    #[test]
    fn projects_are_listed_with_level_and_cost() {
        assert_eq!(
            projects(&[]),
            "You can see no project yet. An admin can grant you one."
        );
        let (site, notes) = (slug("site"), slug("notes"));
        let line = |slug, title, level, budget| ProjectLine {
            slug,
            title,
            level,
            spent: usd(1.25),
            budget,
        };
        let text = projects(&[
            line(&site, "The *site*", Level::Chat, Some(usd(10.0))),
            line(&notes, "Notes", Level::View, None),
        ]);
        assert_snapshot!(text, @r"
        Your projects:
        - `site` · The \*site\* · **chat** · $1.25 of $10.00 this month
        - `notes` · Notes · **view** · $1.25 this month
        ");
    }

    #[test]
    fn admins_read_what_is_kept_about_a_guest() {
        let refusal = LastRefusal {
            text: "no\nbudget".into(),
            at: NOW,
        };
        let text = guest(&AboutGuest {
            member: ADA,
            is_owner: false,
            suspended: true,
            grants: &[grant(Subject::Member(ADA), "site", Level::Chat, Some(NOW))],
            models: &["haiku".into()],
            own_models: true,
            budget: Some(usd(5.0)),
            own_budget: false,
            month: Tally {
                spent: usd(1.0),
                held: Usd::ZERO,
            },
            resets: Moment(1_796_083_200_000),
            last_refusal: Some(&refusal),
            now: NOW,
        });
        assert_snapshot!(text, @r"
        <@2> is **suspended**. `/guest restore` lets them in again.
        - `site` · **chat** · expired <t:1794744000:R>
        Models: haiku (set for them)
        This month: $4.00 left of $5.00, starts anew <t:1796083200:R>. (as configured)
        Last refusal (<t:1794744000:R>): no budget
        ");
    }

    #[test]
    fn spending_is_told_by_project_and_guest() {
        let text = spent(&Spent {
            month: "2026-11".parse().unwrap(),
            total: usd(3.0),
            estimated: true,
            held: usd(1.0),
            turns: 7,
            guests: &[(ADA, usd(2.0)), (OWNER, usd(1.0))],
            projects: &[(slug("site"), usd(3.0))],
        });
        assert_snapshot!(text, @r"
        2026-11: $3.00 (estimated) in 7 turns, $1.00 held for running turns.
        - `site`: $3.00
        - <@2>: $2.00
        - <@1>: $1.00
        ");
    }

    #[test]
    fn the_state_of_the_house_is_told_with_what_is_wrong() {
        let text = status(&Status {
            running: 1,
            most_running: 4,
            waiting: 2,
            paused: Some("new disk"),
            discord: Wellness::Well(Some(Duration::from_millis(40))),
            sandbox: Wellness::Unwell("the sandbox cannot be reached".into()),
            version: "0.1.0",
            store_bytes: 2048,
        });
        assert_snapshot!(text, @r"
        Innkeeper 0.1.0 · 1 of 4 running, 2 waiting
        ⏸ New turns are paused: new disk
        Discord: ✓ answers in 40 ms
        Sandbox: ✗ the sandbox cannot be reached
        Store: 2 KiB
        ");
        assert_snapshot!(paused(Some("new disk."), false), @"⏸ New turns are paused: new disk. Running ones go on. `/resume` ends it.");
        assert_snapshot!(paused(Some(""), false), @"⏸ New turns are paused. Running ones go on. `/resume` ends it.");
    }

    #[test]
    fn the_audit_log_shows_before_and_after_and_fits() {
        let entry = AuditEntry {
            at: NOW,
            by: OWNER,
            what: "budget member 2".into(),
            before: None,
            after: Some("$5.00".into()),
        };
        assert_snapshot!(audit(std::slice::from_ref(&entry)), @r"
        The newest first:
        - <t:1794744000:f> <@1> `budget` <@2>: nothing → `$5.00`
        ");
        let grant = AuditEntry {
            what: "grant role 70 site".into(),
            before: Some("view until 1794744000".into()),
            after: Some("chat".into()),
            ..entry.clone()
        };
        assert_snapshot!(audit(&[grant]), @r"
        The newest first:
        - <t:1794744000:f> <@1> `grant` <@&70> `site`: `view` until <t:1794744000:f> → `chat`
        ");
        let long = AuditEntry {
            what: "`x` ".repeat(500),
            ..entry
        };
        assert!(audit(&vec![long; 40]).chars().count() <= 2000);
    }
}
