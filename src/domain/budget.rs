//! The one gate: who may enter a project, with which model, for how much money.
//!
//! Everything that starts a turn or shows something of a project asks here, with the roles that the event itself
//! carried. Whoever has no live grant stays outside; nothing is ever open because something is empty or missing.

use super::grant::{Grant, Level, Permit, Refusal};
use super::guest::{Guest, Person};
use super::ids::Slug;
use super::ledger::Usage;
use super::model;
use super::money::Usd;
use super::project::{Catalogue, Project};
use super::rules::Rules;
use super::time::{Moment, Month};

/// What is known when something is decided about a person.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The configured rules.
    pub rules: &'a Rules,
    /// The configured projects.
    pub catalogue: &'a Catalogue,
    /// Who it is about, with the roles held at this moment.
    pub person: &'a Person,
    /// What is kept about them.
    pub guest: &'a Guest,
    /// Grants; those that the person does not hold count for nothing.
    pub grants: &'a [Grant],
    /// The present moment.
    pub now: Moment,
}

/// Which project is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// That of the chat or of the channel: known to everybody there.
    Fixed(&'a Slug),
    /// The one the person named. Whether it exists is told only to those who may see it.
    Typed(&'a str),
    /// The only one that is possible.
    Any,
}

/// What is asked of the gate.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Where.
    pub project: Wanted<'a>,
    /// The level without which it cannot be.
    pub need: Level,
    /// The model that was named, if any.
    pub model: Option<&'a str>,
}

/// A project that somebody may enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Which.
    pub project: &'a Project,
    /// The level held there: at least the one that was needed.
    pub level: Level,
}

/// Decides whether a turn may start, and is the only maker of a [`Permit`].
///
/// `usage` is that of the project which [`enter`] gives for the same question. The need is at least `chat`.
pub fn admit(facts: &Facts<'_>, usage: &Usage, ask: &Ask<'_>) -> Result<Permit, Refusal> {
    let need = ask.need.max(Level::Chat);
    let Entry { project, level } = enter(facts, &Ask { need, ..*ask })?;
    let (model, families) = choose_model(facts, project, ask.model)?;
    let purse = open_purse(facts, project, usage)?;
    let month = Month::of(facts.now, &facts.rules.zone);
    Ok(Permit {
        member: facts.person.member,
        project: project.slug.clone(),
        level,
        model,
        families,
        cap: purse.cap,
        guest_budget: purse.guest_budget,
        project_budget: purse.project_budget,
        month,
        resets: month.ends_at(&facts.rules.zone),
    })
}

/// Decides which project is meant and whether the person may enter it. Money and models are not looked at.
pub fn enter<'a>(facts: &Facts<'a>, ask: &Ask<'_>) -> Result<Entry<'a>, Refusal> {
    if facts.guest.suspended && !is_owner(facts) {
        return Err(Refusal::Suspended);
    }
    match ask.project {
        Wanted::Fixed(slug) => match facts.catalogue.get(slug) {
            Some(project) => judge(facts, project, ask.need),
            None => Err(unknown(facts, slug.as_str(), ask.need)),
        },
        Wanted::Typed(text) => match find(facts.catalogue, text) {
            Some(project) if knows(facts, project) => judge(facts, project, ask.need),
            _ => Err(unknown(facts, text, ask.need)),
        },
        Wanted::Any => only_one(facts, ask.need),
    }
}

/// Returns the level that the person holds on a project now: the highest of all live grants, `ship` for owners.
///
/// Nothing for suspended guests and for projects that the catalogue does not have.
pub fn level_of(facts: &Facts<'_>, slug: &Slug) -> Option<Level> {
    facts.catalogue.get(slug)?;
    if is_owner(facts) {
        return Some(Level::Ship);
    }
    if facts.guest.suspended {
        return None;
    }
    held(facts)
        .filter(|grant| grant.project == *slug && grant.is_live(facts.now))
        .map(|grant| grant.level)
        .max()
}

/// Returns the projects on which the person holds at least `view`, in the catalogue's order.
pub fn visible_projects<'a>(facts: &Facts<'a>) -> Vec<&'a Project> {
    projects_at(facts, Level::View)
}

/// Returns the projects in which the person may run turns, in the catalogue's order.
pub fn runnable_projects<'a>(facts: &Facts<'a>) -> Vec<&'a Project> {
    projects_at(facts, Level::Chat)
}

/// Returns the projects on which the person holds at least `need`, in the catalogue's order.
pub fn projects_at<'a>(facts: &Facts<'a>, need: Level) -> Vec<&'a Project> {
    facts
        .catalogue
        .0
        .iter()
        .filter(|project| level_of(facts, &project.slug) >= Some(need))
        .collect()
}

/// Returns the monthly budget of the person; `None`: without limit, for owners.
pub fn budget_of(facts: &Facts<'_>) -> Option<Usd> {
    (!is_owner(facts)).then(|| facts.guest.budget.unwrap_or(facts.rules.limits.budget))
}

fn is_owner(facts: &Facts<'_>) -> bool {
    facts.rules.is_owner(facts.person.member)
}

fn held<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a Grant> {
    let person = facts.person;
    facts
        .grants
        .iter()
        .filter(move |grant| grant.is_held_by(person))
}

fn find<'a>(catalogue: &'a Catalogue, text: &str) -> Option<&'a Project> {
    catalogue.get(&text.trim().to_ascii_lowercase().parse().ok()?)
}

/// Returns whether the person may be told that the project exists: they hold it, or once did.
fn knows(facts: &Facts<'_>, project: &Project) -> bool {
    is_owner(facts) || held(facts).any(|grant| grant.project == project.slug)
}

fn judge<'a>(facts: &Facts<'a>, project: &'a Project, need: Level) -> Result<Entry<'a>, Refusal> {
    let holds = level_of(facts, &project.slug);
    match holds {
        Some(level) if level >= need => Ok(Entry { project, level }),
        _ => Err(
            ran_out(facts, need, Some(&project.slug)).unwrap_or(Refusal::NoGrant {
                project: Some(project.slug.clone()),
                need,
                holds,
            }),
        ),
    }
}

fn only_one<'a>(facts: &Facts<'a>, need: Level) -> Result<Entry<'a>, Refusal> {
    match projects_at(facts, need).as_slice() {
        [project] => judge(facts, project, need),
        [] => Err(ran_out(facts, need, None).unwrap_or_else(|| no_grant_at_all(facts, need))),
        several => Err(Refusal::WhichProject {
            choices: several.iter().map(|project| project.slug.clone()).collect(),
        }),
    }
}

/// Returns the refusal for the grant that would have sufficed and ran out last, if there is one.
fn ran_out(facts: &Facts<'_>, need: Level, on: Option<&Slug>) -> Option<Refusal> {
    held(facts)
        .filter(|grant| grant.level >= need && !grant.is_live(facts.now))
        .filter(|grant| on.is_none_or(|slug| grant.project == *slug))
        .filter(|grant| facts.catalogue.get(&grant.project).is_some())
        .filter_map(|grant| Some((grant.until?, &grant.project)))
        .max()
        .map(|(at, project)| Refusal::Expired {
            project: project.clone(),
            at,
        })
}

fn no_grant_at_all(facts: &Facts<'_>, need: Level) -> Refusal {
    Refusal::NoGrant {
        project: None,
        need,
        holds: visible_projects(facts)
            .iter()
            .filter_map(|project| level_of(facts, &project.slug))
            .max(),
    }
}

/// Returns the refusal for a name that means nothing to this person. Who may see nothing learns nothing.
fn unknown(facts: &Facts<'_>, asked: &str, need: Level) -> Refusal {
    if visible_projects(facts).is_empty() && !is_owner(facts) {
        return no_grant_at_all(facts, need);
    }
    Refusal::UnknownProject {
        asked: asked.trim().chars().take(60).collect(),
        choices: runnable_projects(facts)
            .iter()
            .map(|project| project.slug.clone())
            .collect(),
    }
}

/// A model to run with, and the families allowed; `None`: any.
type Chosen = (String, Option<Vec<String>>);

fn choose_model(
    facts: &Facts<'_>,
    project: &Project,
    asked: Option<&str>,
) -> Result<Chosen, Refusal> {
    let guests = model::families_of(facts.guest.models.as_deref(), &facts.rules.models);
    let mut allowed = model::common(&guests, &project.models);
    let chosen = if is_owner(facts) {
        if allowed.is_empty() {
            allowed = model::families_of(Some(&project.models), &facts.rules.models);
        }
        model::choose_freely(asked, &allowed).map(|model| (model, None))
    } else {
        model::choose(asked, &allowed).map(|model| (model, Some(allowed.clone())))
    };
    chosen.ok_or_else(|| Refusal::Model {
        asked: asked.unwrap_or_default().chars().take(60).collect(),
        allowed,
    })
}

struct Purse {
    cap: Usd,
    guest_budget: Option<Usd>,
    project_budget: Option<Usd>,
}

/// Decides how much a turn may cost. Owners have no budget, and no project's budget binds them.
///
/// What is only held may come back before this turn starts, so here it is as good as there: it counts when money is held.
fn open_purse(facts: &Facts<'_>, project: &Project, usage: &Usage) -> Result<Purse, Refusal> {
    let guest_budget = budget_of(facts);
    let project_budget = project.budget.filter(|_| guest_budget.is_some());
    let spent = Usage {
        guest: usage.guest.without_holds(),
        project: usage.project.without_holds(),
    };
    let cap = left(
        facts.rules.limits.turn,
        (guest_budget, project_budget),
        &spent,
    )
    .map_err(|who| {
        let resets = Month::of(facts.now, &facts.rules.zone).ends_at(&facts.rules.zone);
        who.refusal(&project.slug, usage, resets)
    })?;
    Ok(Purse {
        cap,
        guest_budget,
        project_budget,
    })
}

/// Whose month has nothing left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedUp {
    /// The guest's; their budget.
    Guest(Usd),
    /// The project's; its budget.
    Project(Usd),
}

impl UsedUp {
    /// Returns what the person is told. What is held for running turns may come back long before the next month.
    pub fn refusal(self, project: &Slug, usage: &Usage, resets: Moment) -> Refusal {
        match self {
            UsedUp::Guest(budget) if usage.guest.spent < budget => Refusal::Held { project: None },
            UsedUp::Guest(budget) => Refusal::GuestBudget {
                used: usage.guest.spent,
                budget,
                resets,
            },
            UsedUp::Project(budget) if usage.project.spent < budget => Refusal::Held {
                project: Some(project.clone()),
            },
            UsedUp::Project(_) => Refusal::ProjectBudget {
                project: project.clone(),
                resets,
            },
        }
    }
}

/// Returns the least of `most` and of what is left of both budgets (guest's, project's); nothing left is a no.
pub fn left(
    most: Usd,
    (guest, project): (Option<Usd>, Option<Usd>),
    usage: &Usage,
) -> Result<Usd, UsedUp> {
    let mut cap = most;
    if let Some(budget) = guest {
        cap = cap.min(budget.less(usage.guest.used()));
        if budget <= usage.guest.used() {
            return Err(UsedUp::Guest(budget));
        }
    }
    if let Some(budget) = project {
        cap = cap.min(budget.less(usage.project.used()));
        if budget <= usage.project.used() {
            return Err(UsedUp::Project(budget));
        }
    }
    Ok(cap)
}

#[cfg(test)]
mod tests;
