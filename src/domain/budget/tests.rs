use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;
use crate::domain::grant::Subject;
use crate::domain::ids::{MemberId, RoleId};
use crate::domain::ledger::Tally;
use crate::domain::samples::{ADA, OWNER, grant, project, rules, slug, usd};

const TEAM: RoleId = RoleId(70);
/// 2026-11-15 12:00 UTC.
const NOW: Moment = Moment(1_794_744_000_000);

/// Everything that a decision looks at, owned.
struct World {
    rules: Rules,
    catalogue: Catalogue,
    person: Person,
    guest: Guest,
    grants: Vec<Grant>,
    usage: Usage,
    now: Moment,
}

impl World {
    fn of(member: MemberId) -> World {
        World {
            rules: rules(),
            catalogue: Catalogue(vec![project("site"), project("notes"), project("shop")]),
            person: Person {
                member,
                name: "Ada".into(),
                roles: vec![TEAM],
            },
            guest: Guest {
                budget: Some(usd(5.0)),
                ..Guest::new(member)
            },
            grants: Vec::new(),
            usage: Usage::default(),
            now: NOW,
        }
    }

    fn granted(mut self, name: &str, level: Level) -> World {
        self.grants
            .push(grant(Subject::Member(ADA), name, level, None));
        self
    }

    fn until(mut self, until: Moment) -> World {
        self.grants.last_mut().unwrap().until = Some(until);
        self
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            rules: &self.rules,
            catalogue: &self.catalogue,
            person: &self.person,
            guest: &self.guest,
            grants: &self.grants,
            now: self.now,
        }
    }

    fn asks(&self, wanted: Wanted<'_>) -> Result<Permit, Refusal> {
        self.asks_for(wanted, None)
    }

    fn asks_for(&self, wanted: Wanted<'_>, model: Option<&str>) -> Result<Permit, Refusal> {
        let ask = Ask {
            project: wanted,
            need: Level::Chat,
            model,
        };
        admit(&self.facts(), &self.usage, &ask)
    }
}

fn no_grant(project: Option<&str>, holds: Option<Level>) -> Refusal {
    Refusal::NoGrant {
        project: project.map(slug),
        need: Level::Chat,
        holds,
    }
}

#[test]
fn an_empty_store_serves_owners_alone() {
    let owner = World {
        guest: Guest::new(OWNER),
        ..World::of(OWNER)
    };
    let permit = owner.asks(Wanted::Typed("site")).unwrap();
    assert_eq!(permit.level(), Level::Ship);
    assert_eq!(permit.cap(), usd(1.0));
    assert_eq!(permit.guest_budget(), None);
    assert_eq!(permit.families(), None);

    let mut stranger = World::of(MemberId(3));
    for wanted in [Wanted::Typed("site"), Wanted::Typed("nothing"), Wanted::Any] {
        assert_eq!(stranger.asks(wanted), Err(no_grant(None, None)));
    }
    let site = slug("site");
    assert_eq!(
        stranger.asks(Wanted::Fixed(&site)),
        Err(no_grant(Some("site"), None))
    );
    // An admin's own turns need a grant like anyone's.
    stranger.person.roles.push(RoleId(99));
    assert!(stranger.asks(Wanted::Any).is_err());
}

#[test]
fn no_budget_binds_an_owner() {
    let mut owner = World::of(OWNER);
    owner.catalogue.0[0].budget = Some(usd(1.0));
    owner.usage.guest.spent = usd(900.0);
    owner.usage.project.spent = usd(900.0);
    owner.guest.suspended = true;
    let permit = owner.asks(Wanted::Typed("site")).unwrap();
    assert_eq!((permit.cap(), permit.project_budget()), (usd(1.0), None));
}

#[test]
fn a_grant_of_somebody_else_counts_for_nothing() {
    let mut world = World::of(ADA);
    world.grants = vec![
        grant(Subject::Member(MemberId(3)), "site", Level::Ship, None),
        grant(Subject::Role(RoleId(71)), "site", Level::Ship, None),
    ];
    assert_eq!(world.asks(Wanted::Any), Err(no_grant(None, None)));
}

#[test]
fn the_highest_live_grant_counts_whoever_holds_it() {
    let mut world = World::of(ADA).granted("site", Level::View);
    assert_eq!(
        world.asks(Wanted::Typed("site")),
        Err(no_grant(Some("site"), Some(Level::View)))
    );
    world.grants.push(grant(
        Subject::Role(TEAM),
        "site",
        Level::Ship,
        Some(Moment(NOW.0 + 1)),
    ));
    assert_eq!(
        world.asks(Wanted::Typed(" SITE ")).unwrap().level(),
        Level::Ship
    );
    world.now = Moment(NOW.0 + 1);
    assert_eq!(level_of(&world.facts(), &slug("site")), Some(Level::View));
}

#[test]
fn a_grant_ends_at_its_very_moment() {
    let world = World::of(ADA).granted("site", Level::Chat).until(NOW);
    let expired = Err(Refusal::Expired {
        project: slug("site"),
        at: NOW,
    });
    let site = slug("site");
    for wanted in [Wanted::Any, Wanted::Typed("site"), Wanted::Fixed(&site)] {
        assert_eq!(world.asks(wanted), expired);
    }
    let before = World {
        now: Moment(NOW.0 - 1),
        ..world
    };
    assert!(before.asks(Wanted::Any).is_ok());
}

#[test]
fn an_expired_view_does_not_hide_that_chat_was_never_granted() {
    let world = World::of(ADA).granted("site", Level::View).until(NOW);
    assert_eq!(
        world.asks(Wanted::Typed("site")),
        Err(no_grant(Some("site"), None))
    );
}

#[test]
fn suspension_comes_before_everything_else() {
    let mut world = World::of(ADA).granted("site", Level::Ship);
    world.guest.suspended = true;
    world.usage.guest.spent = usd(100.0);
    let site = slug("site");
    for wanted in [Wanted::Any, Wanted::Typed("x"), Wanted::Fixed(&site)] {
        assert_eq!(world.asks_for(wanted, Some("gpt")), Err(Refusal::Suspended));
    }
    assert_eq!(visible_projects(&world.facts()), Vec::<&Project>::new());
}

#[test]
fn a_hidden_project_answers_like_one_that_does_not_exist() {
    let world = World::of(ADA)
        .granted("site", Level::Chat)
        .granted("notes", Level::View);
    for asked in ["shop", "nothing", "../etc", ""] {
        assert_eq!(
            world.asks(Wanted::Typed(asked)),
            Err(Refusal::UnknownProject {
                asked: asked.into(),
                choices: vec![slug("site")],
            })
        );
    }
}

#[test]
fn a_project_that_left_the_catalogue_is_gone_for_everybody() {
    let old = slug("old");
    let world = World::of(ADA)
        .granted("old", Level::Ship)
        .granted("site", Level::Chat);
    assert!(matches!(
        world.asks(Wanted::Fixed(&old)),
        Err(Refusal::UnknownProject { .. })
    ));
    assert!(matches!(
        World::of(OWNER).asks(Wanted::Fixed(&old)),
        Err(Refusal::UnknownProject { .. })
    ));
}

#[test]
fn without_a_name_the_only_runnable_project_is_meant() {
    let world = World::of(ADA)
        .granted("site", Level::View)
        .granted("notes", Level::Chat);
    assert_eq!(world.asks(Wanted::Any).unwrap().project(), &slug("notes"));
    let world = world.granted("shop", Level::Ship);
    assert_eq!(
        world.asks(Wanted::Any),
        Err(Refusal::WhichProject {
            choices: vec![slug("notes"), slug("shop")],
        })
    );
    let view = World::of(ADA).granted("site", Level::View);
    assert_eq!(
        view.asks(Wanted::Any),
        Err(no_grant(None, Some(Level::View)))
    );
}

#[test]
fn seeing_a_project_needs_no_money_and_running_needs_chat_whatever_was_asked() {
    let mut world = World::of(ADA).granted("site", Level::View);
    world.guest.budget = None;
    let ask = Ask {
        project: Wanted::Typed("site"),
        need: Level::View,
        model: None,
    };
    assert_eq!(enter(&world.facts(), &ask).unwrap().level, Level::View);
    assert_eq!(
        admit(&world.facts(), &world.usage, &ask),
        Err(no_grant(Some("site"), Some(Level::View)))
    );
}

#[test]
fn the_model_must_suit_guest_and_project() {
    let mut world = World::of(ADA).granted("site", Level::Chat);
    let permit = world.asks(Wanted::Any).unwrap();
    assert_eq!(permit.model(), "haiku");
    assert_eq!(
        permit.families(),
        Some(&["haiku".into(), "sonnet".into()][..])
    );
    world.catalogue.0[0].models = vec!["sonnet".into(), "opus".into()];
    assert_eq!(world.asks(Wanted::Any).unwrap().model(), "sonnet");
    assert_eq!(
        world.asks_for(Wanted::Any, Some("opus")),
        Err(Refusal::Model {
            asked: "opus".into(),
            allowed: vec!["sonnet".into()],
        })
    );
    world.catalogue.0[0].models = vec!["opus".into()];
    assert_eq!(
        world.asks(Wanted::Any),
        Err(Refusal::Model {
            asked: String::new(),
            allowed: vec![],
        })
    );
    let mut owner = World::of(OWNER);
    owner.catalogue = world.catalogue;
    assert_eq!(owner.asks(Wanted::Typed("site")).unwrap().model(), "opus");
}

/// Budget, spent, held; the project's likewise; the cap or who is used up, all in dollars.
#[test]
fn the_cap_is_the_least_of_turn_guest_and_project() {
    let resets = Moment(1_796_083_200_000);
    let guest = |used, budget| {
        Err(Refusal::GuestBudget {
            used: usd(used),
            budget: usd(budget),
            resets,
        })
    };
    let project = Err(Refusal::ProjectBudget {
        project: slug("site"),
        resets,
    });
    let table = [
        ((Some(5.0), 0.0, 0.0), (None, 0.0, 0.0), Ok(1.0)),
        ((Some(5.0), 4.5, 0.0), (None, 0.0, 0.0), Ok(0.5)),
        ((Some(5.0), 0.0, 0.0), (Some(3.0), 2.75, 0.0), Ok(0.25)),
        ((Some(5.0), 4.9, 0.0), (Some(3.0), 2.75, 0.0), Ok(0.1)),
        // What is only held may come back before the turn starts.
        ((Some(5.0), 4.0, 1.0), (None, 0.0, 0.0), Ok(1.0)),
        ((Some(5.0), 4.9, 0.1), (Some(3.0), 2.0, 1.0), Ok(0.1)),
        ((Some(5.0), 5.0, 1.0), (None, 0.0, 0.0), guest(5.0, 5.0)),
        ((Some(5.0), 7.0, 0.0), (None, 0.0, 0.0), guest(7.0, 5.0)),
        ((None, 0.0, 0.0), (None, 0.0, 0.0), guest(0.0, 0.0)),
        ((Some(0.0), 0.0, 0.0), (None, 0.0, 0.0), guest(0.0, 0.0)),
        (
            (Some(5.0), 0.0, 0.0),
            (Some(3.0), 3.0, 1.0),
            project.clone(),
        ),
        ((Some(5.0), 0.0, 0.0), (Some(0.0), 0.0, 0.0), project),
    ];
    for ((budget, spent, held), (project_budget, project_spent, project_held), right) in table {
        let mut world = World::of(ADA).granted("site", Level::Chat);
        world.guest.budget = budget.map(usd);
        world.catalogue.0[0].budget = project_budget.map(usd);
        world.usage.guest = tally(spent, held);
        world.usage.project = tally(project_spent, project_held);
        assert_eq!(
            world.asks(Wanted::Any).map(|permit| permit.cap()),
            right.map(usd)
        );
    }
}

#[test]
fn where_holds_alone_are_in_the_way_nobody_is_told_of_the_next_month() {
    let (site, resets) = (slug("site"), Moment(1_796_083_200_000));
    let said = |guest, project| {
        let usage = Usage { guest, project };
        left(usd(1.0), (Some(usd(5.0)), Some(usd(3.0))), &usage)
            .map_err(|who| who.refusal(&site, &usage, resets))
    };
    let none = tally(0.0, 0.0);
    assert_eq!(said(tally(4.0, 0.75), none), Ok(usd(0.25)));
    assert_eq!(
        said(tally(4.0, 1.0), none),
        Err(Refusal::Held { project: None })
    );
    assert_eq!(
        said(none, tally(2.0, 1.5)),
        Err(Refusal::Held {
            project: Some(site.clone())
        })
    );
    assert_eq!(
        said(tally(5.0, 1.0), none),
        Err(Refusal::GuestBudget {
            used: usd(5.0),
            budget: usd(5.0),
            resets
        })
    );
    assert_eq!(
        said(none, tally(3.0, 1.0)),
        Err(Refusal::ProjectBudget {
            project: site.clone(),
            resets
        })
    );
}

fn tally(spent: f64, held: f64) -> Tally {
    Tally {
        spent: usd(spent),
        held: usd(held),
    }
}

#[test]
fn a_new_guest_has_the_configured_budget() {
    let mut world = World::of(ADA).granted("site", Level::Chat);
    world.guest.budget = None;
    world.rules.limits.budget = usd(0.25);
    let permit = world.asks(Wanted::Any).unwrap();
    assert_eq!(
        (permit.cap(), permit.guest_budget()),
        (usd(0.25), Some(usd(0.25)))
    );
}

#[test]
fn the_month_turns_at_midnight_of_the_configured_zone() {
    // Zone, the last millisecond of a month there, that month.
    let table = [
        ("UTC", "2026-01-31T23:59:59.999Z", "2026-01"),
        ("UTC", "2028-02-29T23:59:59.999Z", "2028-02"),
        ("UTC", "2026-12-31T23:59:59.999Z", "2026-12"),
        ("Pacific/Kiritimati", "2026-01-31T09:59:59.999Z", "2026-01"),
        ("Pacific/Pago_Pago", "2026-02-01T10:59:59.999Z", "2026-01"),
        ("Europe/Berlin", "2026-03-31T21:59:59.999Z", "2026-03"),
        ("Europe/Berlin", "2026-10-31T22:59:59.999Z", "2026-10"),
        ("America/New_York", "2026-11-01T03:59:59.999Z", "2026-10"),
        ("America/New_York", "2026-12-01T04:59:59.999Z", "2026-11"),
        // Clocks went forward at midnight of the first: 00:00 did not exist there.
        ("Asia/Amman", "2016-03-31T21:59:59.999Z", "2016-03"),
    ];
    for (zone, last, month) in table {
        let zone = TimeZone::get(zone).unwrap();
        let last = Moment(last.parse::<jiff::Timestamp>().unwrap().as_millisecond());
        let next = Moment(last.0 + 1);
        let of = Month::of(last, &zone);
        assert_eq!(of.to_string(), month);
        assert_ne!(Month::of(next, &zone), of);
        assert_eq!(of.ends_at(&zone), next, "{month} in {zone:?}");
    }
}

#[test]
fn a_permit_is_paid_by_the_month_of_its_start() {
    let mut world = World::of(ADA).granted("site", Level::Chat);
    world.rules.zone = TimeZone::get("Pacific/Kiritimati").unwrap();
    // 2026-11-30 10:00 UTC is the first of December at UTC+14.
    world.now = Moment(1_796_032_800_000);
    let permit = world.asks(Wanted::Any).unwrap();
    assert_eq!(permit.month().to_string(), "2026-12");
    assert_eq!(permit.resets(), permit.month().ends_at(&world.rules.zone));
}

fn any_grant() -> impl Strategy<Value = Grant> {
    let subject = prop_oneof![
        (1..4u64).prop_map(|id| Subject::Member(MemberId(id))),
        (69..72u64).prop_map(|id| Subject::Role(RoleId(id))),
    ];
    let level = prop_oneof![Just(Level::View), Just(Level::Chat), Just(Level::Ship)];
    let until = prop_oneof![
        Just(None),
        (-2..3i64).prop_map(|ms| Some(Moment(NOW.0 + ms)))
    ];
    let name = prop_oneof![Just("site"), Just("notes"), Just("gone")];
    (subject, name, level, until)
        .prop_map(|(subject, name, level, until)| grant(subject, name, level, until))
}

proptest! {
    #[test]
    fn the_cap_never_exceeds_what_is_left(
        budget in 0..3_000_000u64,
        project_budget in proptest::option::of(0..3_000_000u64),
        guest in (0..2_000_000u64, 0..2_000_000u64),
        project in (0..2_000_000u64, 0..2_000_000u64),
        turn in 1..2_000_000u64,
    ) {
        let mut world = World::of(ADA).granted("site", Level::Chat);
        world.guest.budget = Some(Usd(budget));
        world.catalogue.0[0].budget = project_budget.map(Usd);
        world.rules.limits.turn = Usd(turn);
        world.usage.guest = Tally { spent: Usd(guest.0), held: Usd(guest.1) };
        world.usage.project = Tally { spent: Usd(project.0), held: Usd(project.1) };
        let left_guest = budget.saturating_sub(guest.0);
        let left_project = project_budget.map_or(u64::MAX, |all| all.saturating_sub(project.0));
        match world.asks(Wanted::Any) {
            Ok(permit) => prop_assert_eq!(permit.cap().0, turn.min(left_guest).min(left_project)),
            Err(_) => prop_assert!(left_guest == 0 || left_project == 0),
        }
    }

    #[test]
    fn a_permit_rests_on_a_live_grant_that_the_person_holds(
        grants in proptest::collection::vec(any_grant(), 0..6),
        member in 2..4u64,
        suspended: bool,
        typed in prop_oneof![Just("site"), Just("notes"), Just("gone"), Just("shop")],
    ) {
        let mut world = World::of(MemberId(member));
        world.grants = grants;
        world.guest.suspended = suspended;
        for wanted in [Wanted::Any, Wanted::Typed(typed)] {
            if let Ok(permit) = world.asks(wanted) {
                prop_assert!(!suspended);
                let rests = world.grants.iter().any(|grant| {
                    grant.is_held_by(&world.person)
                        && grant.until.is_none_or(|until| until > NOW)
                        && grant.project == *permit.project()
                        && grant.level == permit.level()
                        && grant.level >= Level::Chat
                });
                prop_assert!(rests);
            }
        }
    }
}
