use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::domain::grant::{Level, Subject};
use crate::domain::guest::{Guest, Person};
use crate::domain::ids::{GuildId, MemberId, RoleId, TurnId};
use crate::domain::money::Usd;
use crate::domain::project::Catalogue;
use crate::domain::samples::{
    ADA, ADMINS, GUILD, OWNER, grant, permit, person, project, rules, slug, usd,
};
use crate::domain::time::Moment;
use crate::driver::clock::TokioClock;
use crate::driver::fakes::{FakeSurface, house};
use crate::driver::house::House;
use crate::present::office as say;
use crate::store::Store;

/// 2026-11-15 12:00 UTC.
const NOW: Moment = Moment(1_794_744_000_000);
const DAY: Duration = Duration::from_secs(86_400);
const TO_ADA: Subject = Subject::Member(ADA);

/// An office over a fresh store; the clock stands at [`NOW`], so tests run with tokio's paused.
fn office() -> (tempfile::TempDir, Office) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(&home.path().join("store")).unwrap();
    let surface = FakeSurface::new(Arc::new(TokioClock::starting_at(NOW)));
    let catalogue = Catalogue(vec![project("site"), project("notes"), project("shop")]);
    let house = house(&surface, &store, rules(), catalogue, home.path());
    (home, office_of(&house))
}

/// The office of a house.
pub(super) fn office_of(house: &Arc<House>) -> Office {
    Office {
        store: house.store.clone(),
        rules: house.rules.clone(),
        catalogue: house.catalogue.clone(),
        clock: house.ports.clock.clone(),
        house: house.clone(),
        sandbox: house.ports.sandbox.clone(),
    }
}

fn owner() -> Person {
    person(OWNER, &[])
}

fn admin() -> Person {
    person(MemberId(8), &[ADMINS])
}

fn ada() -> Person {
    person(ADA, &[RoleId(70)])
}

fn shows(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in {text:?}");
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_given_kept_on_disk_and_audited() {
    let (home, office) = office();
    let text = office
        .grant(&admin(), TO_ADA, " Site ", Level::Chat, Some("7d"))
        .await;
    shows(&text, "✓ <@2> now holds **chat** on `site`");
    let copy = home.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for file in ["db", "conf"] {
        std::fs::copy(home.path().join("store").join(file), copy.join(file)).unwrap();
    }
    let on_disk = Store::open(&copy).unwrap();
    let grants = on_disk.grants_for(ADA, &[]).unwrap();
    assert_eq!(grants[0].until, Some(NOW + 7 * DAY));
    assert_eq!((grants[0].by, grants[0].at), (MemberId(8), NOW));
    let audit = &on_disk.audits(5).unwrap()[0];
    assert_eq!(
        (audit.by, audit.what.as_str()),
        (MemberId(8), "grant member 2 site")
    );
    assert_eq!(audit.after.as_deref(), Some("chat until 1795348800"));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_no_admin_changes_and_learns_nothing() {
    let (_home, office) = office();
    // Manage Server makes nobody an admin, and neither does any other role.
    let ada = ada();
    let refused = say::admins_only();
    assert_eq!(
        office.grant(&ada, TO_ADA, "site", Level::Ship, None).await,
        refused
    );
    assert_eq!(
        office
            .grant(&ada, TO_ADA, "unknown", Level::Ship, None)
            .await,
        refused
    );
    assert_eq!(
        office.revoke(&ada, TO_ADA, "site").await,
        (refused.clone(), None)
    );
    assert_eq!(office.set_budget(&ada, ADA, Some(100.0)).await, refused);
    assert_eq!(office.grants(&ada, None), refused);
    assert_eq!(office.grants(&ada, Some(ADA)), refused);
    assert_eq!(office.store.grants().unwrap(), []);
    assert_eq!(office.store.audits(5).unwrap(), []);
    assert_eq!(office.store.guest(ADA).unwrap(), Guest::new(ADA));
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_makes_no_sense_is_not_given() {
    let (_home, office) = office();
    let everyone = Subject::Role(RoleId(GUILD.0));
    let table = [
        (TO_ADA, "siet", Level::Chat, None, "Do you mean `site`?"),
        (
            TO_ADA,
            "the nots",
            Level::Chat,
            None,
            "Do you mean `notes`?",
        ),
        (
            TO_ADA,
            "site",
            Level::Chat,
            Some("soon"),
            "`soon` is no length",
        ),
        (TO_ADA, "site", Level::Chat, Some("7"), "is no length"),
        (TO_ADA, "site", Level::Chat, Some("0d"), "is no length"),
        (TO_ADA, "site", Level::Chat, Some("-7d"), "is no length"),
        (TO_ADA, "site", Level::Chat, Some("7d ago"), "is no length"),
        (
            TO_ADA,
            "site",
            Level::Chat,
            Some("9999 years"),
            "is no length",
        ),
        (everyone, "site", Level::View, None, "@everyone cannot hold"),
    ];
    for (to, project, level, how_long, right) in table {
        let text = office.grant(&owner(), to, project, level, how_long).await;
        shows(&text, right);
    }
    assert_eq!(office.store.grants().unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn how_long_is_counted_as_people_mean_it() {
    let (_home, office) = office();
    let day = 86_400_000;
    for (text, ms) in [
        ("12h", day / 2),
        ("90m", 90 * 60_000),
        ("7D", 7 * day),
        ("2 weeks", 14 * day),
        ("1 month", 30 * day),
        ("1mo", 30 * day),
        ("1w 2d", 9 * day),
    ] {
        office
            .grant(&owner(), TO_ADA, "site", Level::Chat, Some(text))
            .await;
        let grant = office.store.grant(TO_ADA, &slug("site")).unwrap().unwrap();
        assert_eq!(grant.until, Some(Moment(NOW.0 + ms)), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revoked_grant_is_gone_and_says_whose_turns_to_stop() {
    let (_home, office) = office();
    let role = Subject::Role(RoleId(70));
    office
        .grant(&owner(), TO_ADA, "site", Level::Ship, None)
        .await;
    office
        .grant(&owner(), role, "site", Level::View, None)
        .await;
    let (text, revoked) = office.revoke(&admin(), TO_ADA, "SITE").await;
    shows(&text, "no longer holds **ship** on `site`");
    shows(&text, "- <@&70> · view");
    assert_eq!(
        revoked,
        Some(Revoked {
            subject: TO_ADA,
            project: slug("site"),
        })
    );
    assert_eq!(office.store.grants_for(ADA, &[]).unwrap(), []);
    let audit = office.store.audits(1).unwrap().remove(0);
    assert_eq!((audit.before.as_deref(), audit.after), (Some("ship"), None));
    let (text, revoked) = office.revoke(&admin(), TO_ADA, "site").await;
    shows(&text, "holds no grant on `site`");
    assert_eq!(revoked, None);
}

#[tokio::test(start_paused = true)]
async fn a_grant_on_a_project_that_left_the_catalogue_can_still_be_revoked() {
    let (_home, office) = office();
    office
        .store
        .give(&grant(TO_ADA, "old", Level::Ship, None))
        .unwrap();
    let (_, revoked) = office.revoke(&owner(), TO_ADA, "old").await;
    assert!(revoked.is_some());
    assert_eq!(office.store.grants().unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn admins_read_all_grants_or_those_of_one_member() {
    let (_home, office) = office();
    office
        .grant(&admin(), TO_ADA, "site", Level::Chat, Some("1d"))
        .await;
    office
        .grant(
            &owner(),
            Subject::Role(RoleId(70)),
            "notes",
            Level::View,
            None,
        )
        .await;
    tokio::time::advance(2 * DAY).await;
    assert_eq!(
        office.grants(&owner(), None),
        "Grants:\n- <@2> · `site` · **chat** · expired <t:1794830400:R> · by <@8>\n\
         - <@&70> · `notes` · **view** · until it is revoked · by <@1>"
    );
    assert!(!office.grants(&owner(), Some(ADA)).contains("notes"));
}

#[tokio::test(start_paused = true)]
async fn me_and_usage_tell_what_is_left() {
    let (_home, office) = office();
    shows(&office.me(&ada()), "You hold no grant yet");
    office
        .grant(&owner(), TO_ADA, "site", Level::Chat, None)
        .await;
    shows(
        &office.set_budget(&admin(), ADA, Some(5.0)).await,
        "✓ <@2> now has $5.00 a month",
    );
    let site = permit(ADA, "site", 5_000_000, None, NOW);
    for turn in [1, 2] {
        office
            .store
            .hold(TurnId(turn), &site, NOW)
            .unwrap()
            .unwrap();
    }
    office
        .store
        .settle(TurnId(1), Usd(31_200), false, NOW)
        .unwrap();
    office
        .store
        .note_refusal(ADA, "No grant on `shop`.", NOW)
        .unwrap();
    let text = office.me(&ada());
    shows(&text, "- `site` · **chat** · until it is revoked");
    shows(
        &text,
        "$3.9688 left of $5.00 ($1.00 held for running turns), starts anew <t:1796083200:R>",
    );
    shows(
        &text,
        "Last refusal (<t:1794744000:R>): No grant on `shop`.",
    );
    let text = office.usage(&ada()).text;
    shows(
        &text,
        "- `site`: $0.0312 spent, $1.00 held for running turns",
    );
    tokio::time::advance(20 * DAY).await;
    shows(
        &office.usage(&ada()).text,
        "In December 2026 you spent $0.00.\n",
    );
    shows(&office.me(&owner()), "You are an **owner**");
    shows(&office.me(&admin()), "You are an **admin**");
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_a_sum_of_money() {
    let (_home, office) = office();
    for dollars in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
        assert_eq!(
            office.set_budget(&owner(), ADA, Some(dollars)).await,
            say::unknown_amount()
        );
    }
    assert_eq!(office.store.guest(ADA).unwrap().budget, None);
    office.set_budget(&owner(), ADA, Some(0.1)).await;
    assert_eq!(office.store.guest(ADA).unwrap().budget, Some(usd(0.1)));
    let audit = office.store.audits(1).unwrap().remove(0);
    assert_eq!(audit.what, "budget member 2");
    assert_eq!(
        (audit.before, audit.after.as_deref()),
        (None, Some("$0.10"))
    );
}

#[tokio::test(start_paused = true)]
async fn choices_show_only_what_the_caller_may_see() {
    let (_home, office) = office();
    office
        .grant(&owner(), TO_ADA, "site", Level::Chat, None)
        .await;
    office
        .grant(
            &owner(),
            Subject::Role(RoleId(70)),
            "notes",
            Level::View,
            None,
        )
        .await;
    let slugs = |who: &Person, guild, typed: &str, need| -> Vec<String> {
        let choices = office.complete_projects(who, guild, typed, need);
        choices.into_iter().map(|(slug, _)| slug).collect()
    };
    assert_eq!(slugs(&ada(), GUILD, "", Level::View), ["site", "notes"]);
    assert_eq!(slugs(&ada(), GUILD, "", Level::Chat), ["site"]);
    assert_eq!(slugs(&ada(), GUILD, "THE N", Level::View), ["notes"]);
    assert_eq!(slugs(&ada(), GUILD, "sho", Level::View), [""; 0]);
    assert_eq!(
        slugs(&owner(), GUILD, "", Level::Ship),
        ["site", "notes", "shop"]
    );
    assert_eq!(slugs(&owner(), GuildId(1), "", Level::View), [""; 0]);
    for nobody in [person(MemberId(3), &[]), admin()] {
        assert_eq!(slugs(&nobody, GUILD, "", Level::View), [""; 0]);
        assert_eq!(office.complete_models(&nobody, GUILD, ""), [""; 0]);
    }
    assert_eq!(office.complete_any_project(&ada(), GUILD, ""), []);
    assert_eq!(office.complete_any_project(&admin(), GuildId(1), ""), []);
    assert_eq!(
        office.complete_any_project(&admin(), GUILD, "o"),
        [
            ("notes".into(), "The notes".into()),
            ("shop".into(), "The shop".into())
        ]
    );
    assert_eq!(office.complete_models(&ada(), GUILD, "SON"), ["sonnet"]);
    assert_eq!(office.complete_models(&ada(), GuildId(1), ""), [""; 0]);
    office
        .store
        .put_guest(&Guest {
            suspended: true,
            ..Guest::new(ADA)
        })
        .unwrap();
    assert_eq!(slugs(&ada(), GUILD, "", Level::View), [""; 0]);
    shows(&office.me(&ada()), "You are **suspended**");
}

#[tokio::test(start_paused = true)]
async fn choices_keep_within_the_platforms_limits() {
    let (_home, mut office) = office();
    let many = (0..60).map(|n| crate::domain::project::Project {
        title: if n == 0 {
            " ".into()
        } else {
            "🦊".repeat(150)
        },
        ..project(&format!("p{n}"))
    });
    office.catalogue = Arc::new(Catalogue(many.collect()));
    let choices = office.complete_any_project(&owner(), GUILD, "");
    assert_eq!(choices.len(), 25);
    assert_eq!(choices[0].1, "p0");
    assert!(
        choices
            .iter()
            .all(|(_, title)| (1..=100).contains(&title.chars().count()))
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_is_told_and_opens_nothing() {
    let (_home, office) = office();
    for name in ["site", "notes"] {
        office
            .grant(&owner(), TO_ADA, name, Level::Ship, None)
            .await;
    }
    office.store.spoil_grant(TO_ADA, "site");
    let trouble = crate::present::notice::broken();
    assert_eq!(office.me(&ada()), trouble);
    assert_eq!(office.grants(&owner(), Some(ADA)), trouble);
    assert_eq!(
        office
            .grant(&owner(), TO_ADA, "site", Level::View, None)
            .await,
        trouble
    );
    assert_eq!(office.complete_projects(&ada(), GUILD, "", Level::View), []);
    assert_eq!(office.complete_models(&ada(), GUILD, ""), [""; 0]);
    // Taking rights away works all the same, for this record and for others.
    let (text, revoked) = office.revoke(&owner(), TO_ADA, "notes").await;
    shows(&text, "no longer holds **ship** on `notes`");
    assert!(revoked.is_some());
    let (text, revoked) = office.revoke(&owner(), TO_ADA, "site").await;
    shows(&text, "Its record was damaged");
    assert!(revoked.is_some());
    shows(&office.me(&ada()), "You hold no grant yet");
}

fn act_text(reply: crate::driver::inbound::Reply) -> String {
    reply.text
}

#[tokio::test(start_paused = true)]
async fn a_guest_is_suspended_and_restored_with_grants_and_budget_kept() {
    let (_home, office) = office();
    office
        .grant(&owner(), TO_ADA, "site", Level::Chat, None)
        .await;
    office.set_budget(&owner(), ADA, Some(5.0)).await;
    let act = async |act| act_text(office.act(&admin(), GUILD, act).await);
    shows(&act(Act::Suspend(ADA)).await, "✓ <@2> is suspended");
    shows(&act(Act::Suspend(ADA)).await, "suspended already");
    shows(&act(Act::Guest(ADA)).await, "is **suspended**");
    assert_eq!(
        act_text(office.act(&ada(), GUILD, Act::Projects).await),
        "You can see no project yet. An admin can grant you one."
    );
    shows(&act(Act::Restore(ADA)).await, "may use what was granted");
    let kept = act(Act::Guest(ADA)).await;
    shows(&kept, "- `site` · **chat**");
    shows(&kept, "$5.00 left of $5.00");
    shows(&act(Act::Suspend(OWNER)).await, "cannot be suspended");
    let audit = office.store.audits(2).unwrap();
    assert_eq!(audit[1].what, "suspend member 2");
    assert_eq!(audit[1].before.as_deref(), Some("active"));
    assert_eq!(audit[1].after.as_deref(), Some("suspended"));
    assert_eq!(audit[0].what, "restore member 2");
}

#[tokio::test(start_paused = true)]
async fn a_guests_models_are_set_and_taken_back() {
    let (_home, office) = office();
    let act = async |models: Option<&str>| {
        let act = Act::Models(ADA, models.map(str::to_owned));
        act_text(office.act(&admin(), GUILD, act).await)
    };
    shows(
        &act(Some("Opus, haiku opus")).await,
        "may now use opus, haiku. Before: haiku, sonnet",
    );
    assert_eq!(
        office.store.guest(ADA).unwrap().models,
        Some(vec!["opus".to_owned(), "haiku".to_owned()])
    );
    for wrong in ["--model", "a/b", "a b c d e f g h i j k"] {
        shows(&act(Some(wrong)).await, "is no model family");
    }
    shows(
        &act(Some("haiku gpt")).await,
        "I know no model `gpt`. Known are `haiku`, `sonnet`, `opus`;",
    );
    shows(&act(None).await, "may now use haiku, sonnet. Before: opus");
    assert_eq!(office.store.guest(ADA).unwrap().models, None);
}

#[tokio::test(start_paused = true)]
async fn a_projects_budget_is_set_by_command_and_falls_back_to_the_configured_one() {
    let (_home, office) = office();
    let act = async |project: &str, dollars| {
        let act = Act::ProjectBudget(project.to_owned(), dollars);
        act_text(office.act(&admin(), GUILD, act).await)
    };
    shows(
        &act("site", Some(10.0)).await,
        "`site` now has $10.00 a month. Before: no limit of its own",
    );
    assert_eq!(
        office.store.project_budgets().unwrap(),
        [(slug("site"), usd(10.0))]
    );
    shows(&act("site", Some(-1.0)).await, "A budget is an amount");
    shows(&act("siet", Some(1.0)).await, "Do you mean `site`?");
    shows(&act("site", None).await, "Before: $10.00 a month");
    assert_eq!(office.store.project_budgets().unwrap(), []);
    let audit = &office.store.audits(1).unwrap()[0];
    assert_eq!(audit.what, "budget project site");
    assert_eq!(
        (audit.before.as_deref(), audit.after.as_deref()),
        (Some("$10.00"), None)
    );
}

#[tokio::test(start_paused = true)]
async fn spending_is_told_by_guest_project_and_month_with_a_picture() {
    let (_home, office) = office();
    let book = |turn, member, name, cost| {
        let permit = permit(member, name, 9_000_000, None, NOW);
        office
            .store
            .hold(TurnId(turn), &permit, NOW)
            .unwrap()
            .unwrap();
        office
            .store
            .settle(TurnId(turn), usd(cost), false, NOW)
            .unwrap();
    };
    book(1, ADA, "site", 0.5);
    book(2, ADA, "notes", 0.25);
    book(3, MemberId(3), "site", 1.0);
    let spend = async |member: Option<MemberId>, project: Option<&str>, month: Option<&str>| {
        let act = Act::Spend {
            member,
            project: project.map(str::to_owned),
            month: month.map(str::to_owned),
        };
        office.act(&admin(), GUILD, act).await
    };
    let all = spend(None, None, None).await;
    assert_eq!(
        all.text,
        "2026-11: $1.75 in 3 turns.\n- `site`: $1.50\n- `notes`: $0.25\n- <@3>: $1.00\n- <@2>: $0.75"
    );
    assert_eq!(all.files[0].name, "usage-2026-11.png");
    shows(
        &spend(Some(ADA), Some("site"), None).await.text,
        "$0.50 in 1 turn",
    );
    let none = spend(None, None, Some("2026-10")).await;
    shows(&none.text, "2026-10: $0.00 in 0 turns");
    assert!(none.files.is_empty());
    shows(&spend(None, None, Some("soon")).await.text, "is no month");
    let own = office.usage(&ada());
    shows(&own.text, "In November 2026 you spent $0.75");
    assert_eq!(own.files.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_kept_shown_and_ended() {
    let (_home, office) = office();
    let act = async |act| act_text(office.act(&admin(), GUILD, act).await);
    shows(&act(Act::Resume).await, "were not paused");
    shows(
        &act(Act::Pause(" new disk ".into())).await,
        "paused: new disk.",
    );
    assert_eq!(office.store.paused().unwrap().as_deref(), Some("new disk"));
    let status = act(Act::Status).await;
    shows(&status, "0 of 4 running, 0 waiting");
    shows(&status, "New turns are paused: new disk");
    shows(&status, "Sandbox: not used yet");
    shows(&act(Act::Resume).await, "start again");
    assert_eq!(office.store.paused().unwrap(), None);
    let audit = act(Act::Audit).await;
    shows(&audit, "`resume`: `paused: new disk` → nothing");
}
