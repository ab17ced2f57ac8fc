//! What the commands about access and money say, each at most 2000 code points.
//!
//! Sentences only: nothing here decides anything. The texts name people as mentions, and are meant for the one person
//! who asked, with no mention allowed to notify anybody.

use std::fmt::Write as _;

use crate::domain::audit::LastRefusal;
use crate::domain::grant::{Grant, Subject};
use crate::domain::ids::{MemberId, Slug};
use crate::domain::ledger::Tally;
use crate::domain::money::Usd;
use crate::domain::time::{Moment, Month};

/// The longest text of one message, in code points (Discord).
pub(super) const MOST: usize = 2000;
/// What a text that somebody typed is cut to when it is repeated, in code points.
const ECHO: usize = 60;
/// What the last refusal is cut to, in code points.
const REFUSAL: usize = 400;

/// Everything that `/me` tells.
#[derive(Clone, Debug)]
pub struct Me<'a> {
    /// What the person is beside a guest.
    pub rank: Rank,
    /// Whether they are suspended.
    pub suspended: bool,
    /// Their grants and those of their roles, expired ones included.
    pub grants: &'a [Grant],
    /// The model families they may use.
    pub models: &'a [String],
    /// Their monthly budget; `None`: without limit.
    pub budget: Option<Usd>,
    /// How their month stands.
    pub month: Tally,
    /// When the next month begins.
    pub resets: Moment,
    /// What they were refused last.
    pub last_refusal: Option<&'a LastRefusal>,
    /// The present moment.
    pub now: Moment,
}

/// What a person is beside a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Named in the configuration.
    Owner,
    /// Has an admin role.
    Admin,
    /// Neither.
    Guest,
}

/// Everything that `/usage` tells.
#[derive(Clone, Debug)]
pub struct MonthOfUse<'a> {
    /// The month.
    pub month: Month,
    /// How it stands in each project.
    pub projects: &'a [(Slug, Tally)],
    /// How it stands altogether.
    pub total: Tally,
    /// Whether some of what was spent is an estimate.
    pub estimated: bool,
    /// The monthly budget; `None`: without limit.
    pub budget: Option<Usd>,
    /// When the next month begins.
    pub resets: Moment,
}

/// Says that only admins may do this.
pub fn admins_only() -> String {
    "Only admins may do this: an owner, or somebody with one of the configured admin roles.".into()
}

/// Says that a change was made in memory and may not be on disk.
pub fn not_saved() -> String {
    "⚠ I could not bring this to the disk, so it may be lost. The reason is in my log; please look with `/grants` and \
     do it again."
        .into()
}

/// Says that there is no such project, and which one may be meant.
pub fn unknown_project(asked: &str, nearest: Option<&Slug>, all: &[Slug]) -> String {
    let mut head = format!("There is no project {}.", quoted(asked));
    if let Some(nearest) = nearest {
        let _ = write!(head, " Do you mean `{nearest}`?");
    }
    let lines = all.iter().map(|slug| format!("- `{slug}`")).collect();
    fit(head + "\nProjects:", lines, "")
}

/// Says that this is no length of time.
pub fn unknown_span(asked: &str) -> String {
    format!(
        "{} is no length of time that lies ahead. Write for example `12h`, `7d`, `2 weeks` or `1 month`, or leave it out.",
        quoted(asked)
    )
}

/// Says that a budget cannot be this.
pub fn unknown_amount() -> String {
    "A budget is an amount of US dollars from 0 (nothing at all) to 1000000.".into()
}

/// Says that everybody at once cannot hold a grant.
pub fn not_everyone() -> String {
    "@everyone cannot hold a grant. Make a role, give it to the people you mean, and grant the project to that role."
        .into()
}

/// Says that a grant was given.
pub fn granted(grant: &Grant, before: Option<&Grant>) -> String {
    let mut text = format!(
        "✓ {} now holds **{}** on `{}`, {}.",
        subject(grant.subject),
        grant.level,
        grant.project,
        until(grant.until)
    );
    if let Some(before) = before {
        let _ = write!(text, " Before: {}, {}.", before.level, until(before.until));
    }
    text
}

/// Says that a grant was taken away, and which roles still grant the project to those who have them.
pub fn revoked(grant: &Grant, roles: &[Grant]) -> String {
    let head = format!(
        "✓ {} no longer holds **{}** on `{}`. What rests on it and still runs is being stopped.",
        subject(grant.subject),
        grant.level,
        grant.project
    );
    if roles.is_empty() {
        return head;
    }
    let lines = roles
        .iter()
        .map(|role| format!("- {} · {}", subject(role.subject), role.level))
        .collect();
    fit(
        head + "\nThese roles still grant it to whoever has them:",
        lines,
        "",
    )
}

/// Says that a grant was taken away whose record could not be read.
pub fn revoked_unread(whose: Subject, project: &Slug) -> String {
    format!(
        "✓ The grant of {} on `{project}` is gone. Its record was damaged, so I cannot say what it was.",
        subject(whose)
    )
}

/// Says that there was nothing to take away, and what the subject does hold.
pub fn nothing_to_revoke(whose: Subject, project: &str, holds: &[Grant]) -> String {
    let head = format!("{} holds no grant on {}.", subject(whose), quoted(project));
    if holds.is_empty() {
        return format!("{head} There is no other grant either.");
    }
    let lines = holds
        .iter()
        .map(|grant| format!("- `{}` · {}", grant.project, grant.level))
        .collect();
    fit(head + " They hold:", lines, "")
}

/// Lists grants for admins; `of` is the member it is limited to.
pub fn grants_list(grants: &[Grant], of: Option<MemberId>, now: Moment) -> String {
    let whose = of.map_or(String::new(), |member| format!(" of <@{member}>"));
    if grants.is_empty() {
        return format!("There are no grants{whose}. `/grant` gives one.");
    }
    let lines = grants
        .iter()
        .map(|grant| {
            format!(
                "- {} · `{}` · **{}** · {} · by <@{}>",
                subject(grant.subject),
                grant.project,
                grant.level,
                term(grant, now),
                grant.by
            )
        })
        .collect();
    fit(format!("Grants{whose}:"), lines, "")
}

/// Tells people what they may do, what is left, and why they were refused last.
pub fn me(me: &Me<'_>) -> String {
    let head = match me.rank {
        Rank::Owner => "You are an **owner**: every project at `ship`, without a budget.",
        _ if me.suspended => {
            "You are **suspended**: an admin must restore you before anything counts."
        }
        Rank::Admin => "You are an **admin**. Your own turns need a grant like anyone's.",
        Rank::Guest => "You are a guest here.",
    };
    let lines = match (me.rank, me.grants) {
        (Rank::Owner, _) => Vec::new(),
        (_, []) => vec!["You hold no grant yet. Ask an admin for one.".to_owned()],
        (_, grants) => grants
            .iter()
            .map(|grant| own_grant(grant, me.now))
            .collect(),
    };
    let mut foot = format!("Models: {}", me.models.join(", "));
    let _ = write!(foot, "\n{}", purse(me.budget, me.month, me.resets));
    if let Some(refusal) = me.last_refusal {
        let _ = write!(
            foot,
            "\nLast refusal (<t:{}:R>): {}",
            refusal.at.seconds(),
            cut(&one_line(&refusal.text), REFUSAL)
        );
    }
    fit(head.to_owned(), lines, &foot)
}

/// Tells how a person's month stands.
pub fn usage(use_: &MonthOfUse<'_>) -> String {
    let lines = use_
        .projects
        .iter()
        .map(|(slug, tally)| format!("- `{slug}`: {}", amounts(*tally)))
        .collect();
    let estimated = if use_.estimated { " (estimated)" } else { "" };
    let head = format!(
        "In {} you spent {}{estimated}.",
        month_name(use_.month),
        use_.total.spent
    );
    fit(head, lines, &purse(use_.budget, use_.total, use_.resets))
}

/// Says that a guest's budget was set.
pub fn budget_set(member: MemberId, before: Option<Usd>, now: Usd) -> String {
    let before = before.map_or("the configured default".to_owned(), |usd| usd.to_string());
    let none = if now == Usd::ZERO {
        " They can start nothing."
    } else {
        ""
    };
    format!("✓ <@{member}> now has {now} a month. Before: {before}.{none}")
}

/// Returns a grant as its holder reads it.
fn own_grant(grant: &Grant, now: Moment) -> String {
    let by = match grant.subject {
        Subject::Member(_) => String::new(),
        Subject::Role(role) => format!(" · by the role <@&{role}>"),
    };
    let term = term(grant, now);
    format!("- `{}` · **{}** · {term}{by}", grant.project, grant.level)
}

pub(super) fn purse(budget: Option<Usd>, month: Tally, resets: Moment) -> String {
    let resets = resets.seconds();
    match budget {
        None => format!("This month: {}; no limit.", amounts(month)),
        Some(Usd::ZERO) => "This month: no budget. An admin can give you one.".to_owned(),
        Some(budget) => {
            let held = match month.held {
                Usd::ZERO => String::new(),
                held => format!(" ({held} held for running turns)"),
            };
            format!(
                "This month: {} left of {budget}{held}, starts anew <t:{resets}:R>.",
                budget.less(month.used())
            )
        }
    }
}

/// Returns a month as people write it: `November 2026`.
fn month_name(month: Month) -> String {
    const NAMES: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let name = usize::try_from(month.month - 1).ok();
    match name.and_then(|index| NAMES.get(index)) {
        Some(name) => format!("{name} {}", month.year),
        // No month has such a number; its digits are right all the same.
        None => month.to_string(),
    }
}

pub(super) fn amounts(tally: Tally) -> String {
    if tally.held == Usd::ZERO {
        format!("{} spent", tally.spent)
    } else {
        format!(
            "{} spent, {} held for running turns",
            tally.spent, tally.held
        )
    }
}

pub(super) fn subject(subject: Subject) -> String {
    match subject {
        Subject::Member(member) => format!("<@{member}>"),
        Subject::Role(role) => format!("<@&{role}>"),
    }
}

fn until(until: Option<Moment>) -> String {
    until.map_or("until it is revoked".to_owned(), |until| {
        format!("until <t:{}:f>", until.seconds())
    })
}

pub(super) fn term(grant: &Grant, now: Moment) -> String {
    match grant.until {
        Some(at) if !grant.is_live(now) => format!("expired <t:{}:R>", at.seconds()),
        at => until(at),
    }
}

/// Returns a typed text as code, so that it cannot be taken for anything else.
pub(super) fn quoted(text: &str) -> String {
    let text = cut(&one_line(text).replace('`', "'"), ECHO);
    let text = text.trim();
    format!("`{}`", if text.is_empty() { " " } else { text })
}

/// Returns a text without line breaks and other controls.
pub(super) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}

/// Puts lines between a head and a foot, as many as one message holds, and says how many are missing.
pub(super) fn fit(head: String, lines: Vec<String>, foot: &str) -> String {
    // "… and 18446744073709551615 more", with its line break.
    const REST: usize = 32;
    let room = MOST.saturating_sub(head.chars().count() + foot.chars().count() + 1 + REST);
    let mut text = head;
    let mut used = 0;
    let mut shown = 0;
    for line in &lines {
        used += line.chars().count() + 1;
        if used > room {
            break;
        }
        text.push('\n');
        text.push_str(line);
        shown += 1;
    }
    if shown < lines.len() {
        let _ = write!(text, "\n… and {} more", lines.len() - shown);
    }
    if !foot.is_empty() {
        text.push('\n');
        text.push_str(foot);
    }
    text
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::domain::grant::Level;
    use crate::domain::ids::RoleId;
    use crate::domain::samples::{ADA, OWNER, grant, slug, usd};

    const NOW: Moment = Moment(1_794_744_000_000);

    fn ada_on(name: &str, level: Level, until: Option<Moment>) -> Grant {
        grant(Subject::Member(ADA), name, level, until)
    }

    fn of_ada<'a>(grants: &'a [Grant], models: &'a [String]) -> Me<'a> {
        Me {
            rank: Rank::Guest,
            suspended: false,
            grants,
            models,
            budget: Some(usd(5.0)),
            month: Tally {
                spent: usd(1.25),
                held: usd(1.0),
            },
            resets: Moment(1_796_083_200_000),
            last_refusal: None,
            now: NOW,
        }
    }

    #[test]
    fn a_guest_reads_grants_models_and_what_is_left() {
        let grants = [
            ada_on("site", Level::Chat, None),
            ada_on("notes", Level::View, Some(NOW)),
            grant(
                Subject::Role(RoleId(70)),
                "shop",
                Level::Ship,
                Some(Moment(NOW.0 + 1000)),
            ),
        ];
        let refusal = LastRefusal {
            text: "You hold\nno grant on `x`.".into(),
            at: NOW,
        };
        let models = ["haiku".to_owned(), "sonnet".to_owned()];
        let text = me(&Me {
            last_refusal: Some(&refusal),
            ..of_ada(&grants, &models)
        });
        assert_snapshot!(text, @r"
        You are a guest here.
        - `site` · **chat** · until it is revoked
        - `notes` · **view** · expired <t:1794744000:R>
        - `shop` · **ship** · until <t:1794744001:f> · by the role <@&70>
        Models: haiku, sonnet
        This month: $2.75 left of $5.00 ($1.00 held for running turns), starts anew <t:1796083200:R>.
        Last refusal (<t:1794744000:R>): You hold no grant on `x`.
        ");
    }

    #[test]
    fn whoever_has_nothing_or_everything_is_told_so() {
        let models = ["haiku".to_owned()];
        let nothing = Me {
            budget: Some(Usd::ZERO),
            ..of_ada(&[], &models)
        };
        assert_snapshot!(me(&nothing), @r"
        You are a guest here.
        You hold no grant yet. Ask an admin for one.
        Models: haiku
        This month: no budget. An admin can give you one.
        ");
        let owner = Me {
            rank: Rank::Owner,
            budget: None,
            ..of_ada(&[], &models)
        };
        assert_snapshot!(me(&owner), @r"
        You are an **owner**: every project at `ship`, without a budget.
        Models: haiku
        This month: $1.25 spent, $1.00 held for running turns; no limit.
        ");
    }

    #[test]
    fn a_month_is_told_project_by_project() {
        let tally = |spent, held| Tally {
            spent: usd(spent),
            held: usd(held),
        };
        let text = usage(&MonthOfUse {
            month: Month {
                year: 2026,
                month: 11,
            },
            projects: &[
                (slug("notes"), tally(0.0312, 0.0)),
                (slug("site"), tally(1.0, 0.5)),
            ],
            total: tally(1.0312, 0.5),
            estimated: true,
            budget: Some(usd(5.0)),
            resets: Moment(1_796_083_200_000),
        });
        assert_snapshot!(text, @r"
        In November 2026 you spent $1.0312 (estimated).
        - `notes`: $0.0312 spent
        - `site`: $1.00 spent, $0.50 held for running turns
        This month: $3.4688 left of $5.00 ($0.50 held for running turns), starts anew <t:1796083200:R>.
        ");
    }

    #[test]
    fn changes_of_grants_are_told_with_what_was_before() {
        let chat = ada_on("site", Level::Chat, Some(NOW));
        let view = ada_on("site", Level::View, None);
        assert_snapshot!(granted(&chat, None), @"✓ <@2> now holds **chat** on `site`, until <t:1794744000:f>.");
        assert_snapshot!(
            granted(&chat, Some(&view)),
            @"✓ <@2> now holds **chat** on `site`, until <t:1794744000:f>. Before: view, until it is revoked."
        );
        let role = grant(Subject::Role(RoleId(70)), "site", Level::View, None);
        assert_snapshot!(revoked(&chat, &[role]), @r"
        ✓ <@2> no longer holds **chat** on `site`. What rests on it and still runs is being stopped.
        These roles still grant it to whoever has them:
        - <@&70> · view
        ");
        assert_snapshot!(nothing_to_revoke(Subject::Member(ADA), "sit`e", &[view]), @r"
        <@2> holds no grant on `sit'e`. They hold:
        - `site` · view
        ");
        assert_snapshot!(
            budget_set(ADA, None, Usd::ZERO),
            @"✓ <@2> now has $0.00 a month. Before: the configured default. They can start nothing."
        );
    }

    #[test]
    fn what_was_typed_is_repeated_short_and_harmless() {
        let text = unknown_project("a`\n**@everyone**", Some(&slug("site")), &[slug("site")]);
        assert_snapshot!(text, @r"
        There is no project `a' **@everyone**`. Do you mean `site`?
        Projects:
        - `site`
        ");
        assert_snapshot!(unknown_span("\n"), @"` ` is no length of time that lies ahead. Write for example `12h`, `7d`, `2 weeks` or `1 month`, or leave it out.");
    }

    #[test]
    fn long_lists_are_cut_and_say_how_much_is_missing() {
        let far = MemberId(u64::MAX);
        let many: Vec<Grant> = (0..300)
            .map(|n| Grant {
                by: far,
                ..ada_on(&format!("project-{n}"), Level::Chat, Some(NOW))
            })
            .collect();
        let slugs: Vec<Slug> = many.iter().map(|grant| grant.project.clone()).collect();
        let refusal = LastRefusal {
            text: "ü".repeat(3000),
            at: NOW,
        };
        let models = vec!["sonnet".to_owned()];
        let texts = [
            grants_list(&many, Some(OWNER), NOW),
            unknown_project("x", None, &slugs),
            nothing_to_revoke(Subject::Member(ADA), "x", &many),
            revoked(&many[0], &many),
            me(&Me {
                last_refusal: Some(&refusal),
                ..of_ada(&many, &models)
            }),
        ];
        for text in texts {
            let length = text.chars().count();
            assert!((1900..=2000).contains(&length), "{length}: {text}");
            let shown = text.lines().filter(|line| line.starts_with("- ")).count();
            assert!(
                text.contains(&format!("… and {} more", 300 - shown)),
                "{text}"
            );
        }
    }
}
