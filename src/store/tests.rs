use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::domain::audit::AuditEntry;
use crate::domain::grant::{Level, Refusal, Subject};
use crate::domain::guest::Guest;
use crate::domain::ids::{MemberId, RoleId, ThreadId, TurnId};
use crate::domain::ledger::{Tally, Usage};
use crate::domain::money::Usd;
use crate::domain::samples::{ADA, OWNER, chat, grant, permit, slug, turn, usd};
use crate::domain::time::{Moment, Month};
use crate::domain::turn_record::{Stage, TurnRecord};

const THREAD: ThreadId = ThreadId(300);
/// 2026-11-15 12:00 UTC, and a month later.
const NOW: Moment = Moment(1_794_744_000_000);
const LATER: Moment = Moment(NOW.0 + 30 * 86_400_000);
const NOVEMBER: Month = Month {
    year: 2026,
    month: 11,
};

impl Store {
    /// Makes the record of a grant unreadable.
    pub(crate) fn spoil_grant(&self, subject: Subject, project: &str) {
        let key = grants::key(subject, &slug(project));
        let cut = b"\x01{\"subject\":";
        self.inner.grants.tree.insert(key.as_str(), cut).unwrap();
    }
}

fn fresh() -> (tempfile::TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(&home.path().join("store")).unwrap();
    (home, store)
}

#[tokio::test]
async fn a_disk_that_failed_is_told_of_and_nobody_waits_for_it() {
    let (home, store) = fresh();
    store.put_fact("small", "x").unwrap();
    store.flush().await.unwrap();
    assert!(!store.is_broken());
    // What is too large for sled's own file goes into a directory beside it.
    std::fs::remove_dir_all(home.path().join("store/blobs")).unwrap();
    let error = store.put_fact("large", &"x".repeat(1024 * 1024));
    assert!(matches!(error, Err(StoreError::Disk(_))), "{error:?}");
    store.until_broken().await;
    assert!(matches!(store.flush().await, Err(StoreError::Disk(_))));
    // sled would wait for ever for the write that broke off.
    std::mem::forget(store);
}

fn exported(store: &Store) -> String {
    let mut text = Vec::new();
    store.export(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// A store with something in every tree.
fn furnish(store: &Store) {
    store
        .put_guest(&Guest {
            budget: Some(usd(5.0)),
            models: Some(vec!["haiku".into()]),
            ..Guest::new(ADA)
        })
        .unwrap();
    let until = Some(LATER);
    for subject in [Subject::Member(ADA), Subject::Role(RoleId(70))] {
        store
            .give(&grant(subject, "site", Level::Chat, until))
            .unwrap();
    }
    store.put_chat(&chat(THREAD)).unwrap();
    let site = permit(ADA, "site", 5_000_000, None, NOW);
    for (id, stage) in [(1, Stage::Done), (2, Stage::Held), (3, Stage::Waiting)] {
        store.put_turn(&turn(id, THREAD, stage)).unwrap();
    }
    for id in [1, 2] {
        store.hold(TurnId(id), &site, NOW).unwrap().unwrap();
    }
    store.settle(TurnId(1), Usd(31_200), true, NOW).unwrap();
    assert!(store.first_sight(3, NOW).unwrap());
    assert!(
        store
            .once("told/2/300", NOW, Duration::from_secs(60))
            .unwrap()
    );
    store.account("project/site", || "k3v9x2ab".into()).unwrap();
    store
        .audit(&AuditEntry {
            at: NOW,
            by: OWNER,
            what: "grant member 2 site".into(),
            before: None,
            after: Some("chat".into()),
        })
        .unwrap();
    store.note_refusal(ADA, "no budget", NOW).unwrap();
}

#[test]
fn everything_is_there_after_closing_and_opening() {
    let (home, store) = fresh();
    furnish(&store);
    let before = exported(&store);
    store.flush_here().unwrap();
    drop(store);
    let store = Store::open(&home.path().join("store")).unwrap();
    assert_eq!(exported(&store), before);
    assert_eq!(store.check(), Vec::<String>::new());
    assert_eq!(store.turn(TurnId(2)).unwrap().unwrap().stage, Stage::Held);
    assert!(store.held(TurnId(2)).unwrap().is_some());
    assert_eq!(store.guest(ADA).unwrap().budget, Some(usd(5.0)));
    assert_eq!(store.last_refusal(ADA).unwrap().unwrap().text, "no budget");
}

#[test]
fn grants_belong_to_members_and_roles_one_for_each_project() {
    let (_home, store) = fresh();
    let role = Subject::Role(RoleId(70));
    store
        .give(&grant(Subject::Member(ADA), "site", Level::View, None))
        .unwrap();
    store
        .give(&grant(Subject::Member(ADA), "site", Level::Chat, None))
        .unwrap();
    store
        .give(&grant(
            Subject::Member(MemberId(22)),
            "site",
            Level::Ship,
            None,
        ))
        .unwrap();
    store
        .give(&grant(role, "notes", Level::Chat, None))
        .unwrap();
    // The same number as a role is somebody else.
    store
        .give(&grant(Subject::Role(RoleId(2)), "shop", Level::Ship, None))
        .unwrap();
    let projects = |roles: &[RoleId]| -> Vec<String> {
        let grants = store.grants_for(ADA, roles).unwrap();
        grants
            .iter()
            .map(|grant| format!("{} {}", grant.project, grant.level))
            .collect()
    };
    assert_eq!(projects(&[]), ["site chat"]);
    assert_eq!(projects(&[RoleId(70)]), ["site chat", "notes chat"]);
    assert_eq!(store.grants().unwrap().len(), 4);
    assert!(store.revoke(role, &slug("notes")).unwrap());
    assert!(!store.revoke(role, &slug("notes")).unwrap());
    assert_eq!(projects(&[RoleId(70)]), ["site chat"]);
}

#[test]
fn unfinished_turns_come_in_order_and_done_ones_do_not() {
    let (_home, store) = fresh();
    let other = ThreadId(200);
    for (id, thread, stage) in [
        (30, THREAD, Stage::Waiting),
        (9, THREAD, Stage::Waiting),
        (8, THREAD, Stage::Started),
        (7, THREAD, Stage::Done),
        (100, other, Stage::Waiting),
    ] {
        store.put_turn(&turn(id, thread, stage)).unwrap();
    }
    let ids = |turns: Vec<crate::domain::turn_record::TurnRecord>| -> Vec<u64> {
        turns.iter().map(|turn| turn.id.0).collect()
    };
    assert_eq!(ids(store.open_turns(THREAD).unwrap()), [8, 9, 30]);
    assert_eq!(ids(store.unfinished().unwrap()), [100, 8, 9, 30]);
    store.put_turn(&turn(9, THREAD, Stage::Done)).unwrap();
    assert_eq!(ids(store.open_turns(THREAD).unwrap()), [8, 30]);
    assert_eq!(store.turn(TurnId(9)).unwrap().unwrap().stage, Stage::Done);
}

#[test]
fn what_changes_at_once_about_a_guest_is_all_kept() {
    let (_home, store) = fresh();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                store
                    .revise_guest(ADA, |guest| guest.suspended = !guest.suspended)
                    .unwrap();
            }
            store
                .revise_guest(ADA, |guest| guest.suspended = true)
                .unwrap();
        });
        for cents in 0..200 {
            let budget = Some(Usd(cents));
            store
                .revise_guest(ADA, |guest| guest.budget = budget)
                .unwrap();
        }
    });
    let kept = store.guest(ADA).unwrap();
    assert!(kept.suspended);
    assert_eq!(kept.budget, Some(Usd(199)));
}

#[test]
fn of_many_who_try_a_turn_again_one_does() {
    let (_home, store) = fresh();
    let done = TurnRecord {
        retry: true,
        ..turn(1, THREAD, Stage::Done)
    };
    store.put_turn(&done).unwrap();
    let takes = || usize::from(store.take_retry(TurnId(1)).unwrap().is_some());
    let taken: usize = std::thread::scope(|scope| {
        let all = [(); 8].map(|()| scope.spawn(takes));
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(taken, 1);
    assert!(!store.turn(TurnId(1)).unwrap().unwrap().retry);
}

#[test]
fn an_id_is_seen_for_the_first_time_once() {
    let (_home, store) = fresh();
    let first = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                if store.first_sight(77, NOW).unwrap() {
                    first.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(first.into_inner(), 1);
    assert!(store.first_sight(78, LATER).unwrap());
    assert_eq!(store.forget_intake_before(LATER).unwrap(), 1);
    assert!(store.first_sight(77, LATER).unwrap());
    assert!(!store.first_sight(78, LATER).unwrap());
}

#[test]
fn a_thing_is_said_once_in_its_time() {
    let (_home, store) = fresh();
    let day = Duration::from_secs(86_400);
    let at = |seconds: u64| NOW + Duration::from_secs(seconds);
    assert!(store.once("a", at(0), day).unwrap());
    assert!(!store.once("a", at(86_399), day).unwrap());
    assert!(store.once("b", at(5), day).unwrap());
    assert!(store.once("a", at(86_400), day).unwrap());
    assert_eq!(store.forget_intake_before(at(90_000)).unwrap(), 1);
    assert!(!store.once("a", at(90_000), day).unwrap());
}

#[test]
fn an_account_is_minted_once_and_never_shared() {
    let (_home, store) = fresh();
    let mut names = ["aaaaaaaa", "bbbbbbbb"].into_iter().cycle();
    let mut mint = || names.next().unwrap().to_owned();
    let site = store.account("project/site", &mut mint).unwrap();
    assert_eq!(store.account("project/site", &mut mint).unwrap(), site);
    let notes = store.account("project/notes", &mut mint).unwrap();
    assert_ne!(notes, site);
    // Both names are taken now; and names that open-terminal would cut or change are never used.
    for bad in [
        "aaaaaaaa",
        "9aaaaaaa",
        "Aaaaaaaa",
        "aaaaaaaaa",
        "aaaa-aaa",
        "",
    ] {
        let refused = store.account("project/shop", || bad.to_owned());
        assert!(matches!(refused, Err(StoreError::NoAccount(_))), "{bad}");
    }
    assert_eq!(store.check(), Vec::<String>::new());
}

#[test]
fn the_newest_audit_entries_come_first() {
    let (_home, store) = fresh();
    for (at, what) in [(5, "a"), (5, "b"), (3, "c")] {
        let entry = AuditEntry {
            at: Moment(at),
            by: OWNER,
            what: what.into(),
            before: None,
            after: None,
        };
        store.audit(&entry).unwrap();
    }
    let whats: Vec<String> = store
        .audits(2)
        .unwrap()
        .into_iter()
        .map(|e| e.what)
        .collect();
    assert_eq!(whats, ["b", "a"]);
}

#[test]
fn concurrent_holds_never_exceed_what_is_left() {
    // Guest's budget, project's budget, what all holds together must be.
    let table = [
        (1_500_000, None, 1_500_000),
        (9_000_000, Some(2_250_000), 2_250_000),
        (500_000, Some(400_000), 400_000),
    ];
    for (budget, project_budget, right) in table {
        let (_home, store) = fresh();
        let permit = permit(ADA, "site", budget, project_budget, NOW);
        let held = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for id in 0..8 {
                let (store, permit, held) = (&store, &permit, &held);
                scope.spawn(move || match store.hold(TurnId(id), permit, NOW).unwrap() {
                    Ok(amount) => drop(held.fetch_add(amount.0, Ordering::SeqCst)),
                    Err(refusal) => assert!(matches!(refusal, Refusal::Held { .. })),
                });
            }
        });
        assert_eq!(held.into_inner(), right);
        let usage = store.usage(ADA, &slug("site"), NOVEMBER).unwrap();
        assert_eq!(usage.guest.held, Usd(right));
        assert_eq!(
            store.check().len(),
            store.holds().unwrap().len(),
            "only turns are missing"
        );
    }
}

#[test]
fn two_guests_share_a_projects_budget_and_not_each_others() {
    let (_home, store) = fresh();
    let ben = MemberId(3);
    let of_ada = permit(ADA, "site", 5_000_000, Some(1_500_000), NOW);
    let of_ben = permit(ben, "site", 5_000_000, Some(1_500_000), NOW);
    assert_eq!(store.hold(TurnId(1), &of_ada, NOW).unwrap(), Ok(usd(1.0)));
    assert_eq!(store.hold(TurnId(2), &of_ben, NOW).unwrap(), Ok(usd(0.5)));
    assert_eq!(
        store.hold(TurnId(3), &of_ben, NOW).unwrap(),
        Err(Refusal::Held {
            project: Some(slug("site")),
        })
    );
    assert_eq!(
        store.usage(ben, &slug("site"), NOVEMBER).unwrap(),
        Usage {
            guest: Tally {
                spent: Usd::ZERO,
                held: usd(0.5)
            },
            project: Tally {
                spent: Usd::ZERO,
                held: usd(1.5)
            },
        }
    );
    assert!(store.release(TurnId(1)).unwrap());
    assert!(!store.release(TurnId(1)).unwrap());
    assert_eq!(store.hold(TurnId(3), &of_ben, NOW).unwrap(), Ok(usd(1.0)));
}

#[test]
fn a_turn_is_booked_once_and_by_the_month_that_held() {
    let (_home, store) = fresh();
    let site = permit(ADA, "site", 5_000_000, None, NOW);
    assert_eq!(store.hold(TurnId(1), &site, NOW).unwrap(), Ok(usd(1.0)));
    // A replay holds nothing twice.
    assert_eq!(store.hold(TurnId(1), &site, LATER).unwrap(), Ok(usd(1.0)));
    assert!(store.settle(TurnId(1), usd(1.25), false, LATER).unwrap());
    assert!(!store.settle(TurnId(1), usd(9.0), false, LATER).unwrap());
    assert!(!store.release(TurnId(1)).unwrap());
    assert!(matches!(
        store.hold(TurnId(1), &site, LATER),
        Err(StoreError::Settled(TurnId(1)))
    ));
    assert!(matches!(
        store.settle(TurnId(2), usd(1.0), false, NOW),
        Err(StoreError::NoHold(TurnId(2)))
    ));
    let spent = Tally {
        spent: usd(1.25),
        held: Usd::ZERO,
    };
    assert_eq!(
        store.spent_by_project(ADA, NOVEMBER).unwrap(),
        [(slug("site"), spent)]
    );
    let december = Month {
        month: 12,
        ..NOVEMBER
    };
    assert_eq!(store.spent_by_project(ADA, december).unwrap(), []);
    assert_eq!(store.entries(&EntryFilter::default()).unwrap().len(), 1);
    let none = EntryFilter {
        month: Some(december),
        ..EntryFilter::default()
    };
    assert_eq!(store.entries(&none).unwrap(), []);
}

#[test]
fn a_turn_that_waited_over_the_months_end_is_held_in_the_new_month() {
    let (_home, store) = fresh();
    let old = permit(ADA, "site", 700_000, None, NOW);
    let new = permit(ADA, "site", 700_000, None, LATER);
    assert_eq!(store.hold(TurnId(1), &old, NOW).unwrap(), Ok(usd(0.7)));
    assert_eq!(store.hold(TurnId(1), &new, LATER).unwrap(), Ok(usd(0.7)));
    let november = store.usage(ADA, &slug("site"), old.month()).unwrap();
    let december = store.usage(ADA, &slug("site"), new.month()).unwrap();
    assert_eq!(
        (november.guest.held, december.guest.held),
        (Usd::ZERO, usd(0.7))
    );
}

#[derive(Clone, Debug)]
enum Move {
    Hold {
        turn: u64,
        member: u64,
        project: &'static str,
        at: Moment,
    },
    Settle {
        turn: u64,
        cost: u64,
    },
    Release {
        turn: u64,
    },
}

fn any_move() -> impl Strategy<Value = Move> {
    let turn = 0..6u64;
    let project = prop_oneof![Just("site"), Just("notes")];
    let at = prop_oneof![Just(NOW), Just(LATER)];
    prop_oneof![
        (turn.clone(), 2..4u64, project, at).prop_map(|(turn, member, project, at)| Move::Hold {
            turn,
            member,
            project,
            at
        }),
        (turn.clone(), 0..2_000_000u64).prop_map(|(turn, cost)| Move::Settle { turn, cost }),
        turn.prop_map(|turn| Move::Release { turn }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_sums_equal_the_ledger_whatever_happened(
        moves in proptest::collection::vec(any_move(), 1..40),
    ) {
        let (_home, store) = fresh();
        for step in moves {
            match step {
                Move::Hold { turn, member, project, at } => {
                    let permit = permit(MemberId(member), project, 2_500_000, Some(3_000_000), at);
                    // Refused and settled turns are fine here: only the sums matter.
                    let _ = store.hold(TurnId(turn), &permit, at);
                }
                Move::Settle { turn, cost } => drop(store.settle(TurnId(turn), Usd(cost), false, NOW)),
                Move::Release { turn } => drop(store.release(TurnId(turn))),
            }
        }
        let kept: std::collections::BTreeMap<String, Tally> = store
            .inner
            .totals
            .under("")
            .map(Result::unwrap)
            .filter(|(_, tally)| *tally != Tally::default())
            .collect();
        let mut right = store.sums().unwrap();
        right.retain(|_, tally| *tally != Tally::default());
        prop_assert_eq!(kept, right);
    }
}

#[test]
fn an_export_imports_to_the_same_store() {
    let (home, store) = fresh();
    furnish(&store);
    let text = exported(&store);
    let copy_path = home.path().join("copy");
    let count = Store::import(&copy_path, text.as_bytes()).unwrap();
    assert_eq!(count, text.lines().count());
    let copy = Store::open(&copy_path).unwrap();
    assert_eq!(exported(&copy), text);
    assert_eq!(copy.check(), Vec::<String>::new());
    for table in store.inner.derived() {
        let of = |store: &Store| -> Vec<_> {
            let tables = store.inner.derived();
            let tree = tables
                .iter()
                .find(|other| other.name() == table.name())
                .unwrap()
                .tree();
            tree.iter().map(Result::unwrap).collect()
        };
        assert_eq!(of(&store), of(&copy), "{}", table.name());
    }
}

#[test]
fn an_import_goes_into_an_empty_store_only() {
    let (home, store) = fresh();
    furnish(&store);
    let text = exported(&store);
    drop(store);
    let path = home.path().join("store");
    assert!(matches!(
        Store::import(&path, text.as_bytes()),
        Err(StoreError::NotEmpty(_))
    ));
    assert_eq!(exported(&Store::open(&path).unwrap()), text);
}

#[test]
fn a_wrong_line_is_named_and_leaves_the_place_empty() {
    let good =
        r#"{"v":1,"tree":"refusals","key":"00000000000000000002","value":{"text":"no","at":1}}"#;
    let table = [
        (format!("{good}\nnonsense"), "line 2"),
        (good.replace("refusals", "wishes"), "wishes"),
        (good.replace("\"text\":\"no\",", ""), "missing field `text`"),
        (format!("{good}\n{good}"), "twice"),
        (
            r#"{"v":1,"tree":"grants","key":"member/00000000000000000003/site","value":{"subject":{"member":2},"project":"site","level":"ship","by":1,"at":0,"until":null}}"#.to_owned(),
            "belongs under",
        ),
        (good.replace("\"v\":1", "\"v\":2"), "version 2"),
        (good.replace("\"v\":1", "\"v\":0"), "version 0"),
    ];
    for (text, right) in table {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store");
        let error = Store::import(&path, text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains(right), "{error}");
        assert_eq!(
            Store::import(&path, good.as_bytes()).unwrap(),
            1,
            "it is empty again"
        );
    }
}

#[test]
fn an_import_that_was_cut_short_does_not_open() {
    let (home, store) = fresh();
    furnish(&store);
    store.unmark().unwrap();
    drop(store);
    let error = Store::open(&home.path().join("store")).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
}

#[test]
fn the_kept_sample_of_version_1_still_loads() {
    let home = tempfile::tempdir().unwrap();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store/v1.jsonl");
    let text = std::fs::read_to_string(sample).unwrap();
    let path = home.path().join("store");
    Store::import(&path, text.as_bytes()).unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(store.check(), Vec::<String>::new());
    for table in store.inner.primary() {
        assert!(
            !table.tree().is_empty(),
            "the sample has no {}",
            table.name()
        );
    }
    assert_eq!(store.unfinished().unwrap().len(), 3);
    assert_eq!(store.grants_for(ADA, &[RoleId(70)]).unwrap().len(), 2);
}

#[test]
fn a_store_of_a_newer_program_is_left_alone() {
    let (home, store) = fresh();
    store.inner.db.insert("version", &[9]).unwrap();
    store.flush_here().unwrap();
    drop(store);
    let error = Store::open(&home.path().join("store")).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Future {
                found: 9,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn an_unreadable_record_is_an_error_and_the_rest_goes_on() {
    let (_home, store) = fresh();
    furnish(&store);
    let key = grants::key(Subject::Member(ADA), &slug("site"));
    store
        .inner
        .grants
        .tree
        .insert(key.as_str(), b"\x01{\"subject\":")
        .unwrap();
    let guest_key = table::id_key(ADA.0);
    store
        .inner
        .guests
        .tree
        .insert(guest_key.as_str(), b"\x02{}")
        .unwrap();
    let error = store.grants_for(ADA, &[]).unwrap_err();
    assert!(
        matches!(error, StoreError::Unreadable { tree: "grants", .. }),
        "{error}"
    );
    assert!(matches!(
        store.guest(ADA),
        Err(StoreError::Future { found: 2, .. })
    ));
    assert!(store.export(Vec::new()).is_err());
    let faults = store.check();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert_eq!(
        store.grants_for(MemberId(3), &[RoleId(70)]).unwrap().len(),
        1
    );
}

#[test]
fn a_check_finds_what_does_not_fit_together() {
    type Harm = fn(&Store);
    let table: [(Harm, &str); 7] = [
        (
            |store| {
                let [key, ..] = ledger::total_keys(ADA, &slug("site"), NOVEMBER);
                store.inner.totals.put(&key, &Tally::default()).unwrap();
            },
            "the total 2026-11/guest/",
        ),
        (
            |store| drop(store.inner.holds.tree.remove(table::id_key(2))),
            "no money is held",
        ),
        (|store| drop(store.inner.unfinished.tree.remove("x")), ""),
        (
            |store| store.inner.unfinished.put("x/y", &()).unwrap(),
            "disagree about x/y",
        ),
        (
            |store| drop(store.inner.chats.tree.remove(table::id_key(THREAD.0))),
            "is missing",
        ),
        (
            |store| drop(store.inner.turns.tree.remove(table::id_key(2))),
            "not unfinished",
        ),
        (
            |store| drop(store.inner.accounts.tree.remove("id/k3v9x2ab")),
            "no counterpart",
        ),
    ];
    for (harm, right) in table {
        let (_home, store) = fresh();
        furnish(&store);
        harm(&store);
        let faults = store.check();
        if right.is_empty() {
            assert_eq!(faults, Vec::<String>::new());
        } else {
            assert!(
                faults.iter().any(|fault| fault.contains(right)),
                "{right}: {faults:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_for_the_disk_are_all_served() {
    let (home, store) = fresh();
    let tasks: Vec<_> = (0..20u64)
        .map(|id| {
            let store = store.clone();
            tokio::spawn(async move {
                store.first_sight(id, NOW).unwrap();
                store.flush().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // What the disk has now is what a machine would find that lost its power.
    let copy = home.path().join("copy");
    copy_directory(&home.path().join("store"), &copy);
    let copy = Store::open(&copy).unwrap();
    for id in 0..20 {
        assert!(!copy.first_sight(id, NOW).unwrap(), "{id}");
    }
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_damaged_store_is_called_damaged_and_never_taken_for_a_new_one() {
    type Harm = fn(&Path);
    let table: [Harm; 4] = [
        |path| std::fs::write(path.join("conf"), b"segment_size: nonsense").unwrap(),
        |path| std::fs::write(path.join("db"), [0xa7; 8192]).unwrap(),
        |path| std::fs::write(path.join("db"), b"").unwrap(),
        |path| std::fs::remove_file(path.join("db")).unwrap(),
    ];
    for (number, harm) in table.iter().enumerate() {
        let (home, store) = fresh();
        furnish(&store);
        store.flush_here().unwrap();
        drop(store);
        let path = home.path().join("store");
        harm(&path);
        let error = Store::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Damaged(_)), "{number}: {error}");
    }
}

#[test]
fn the_directory_is_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (home, _store) = fresh();
    let mode = std::fs::metadata(home.path().join("store"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_quick_restart_waits_for_the_dying_lock() {
    let (home, store) = fresh();
    let path = home.path().join("store");
    let next = std::thread::spawn(move || Store::open(&path));
    drop(store);
    next.join().unwrap().unwrap();
}

/// Set in a copy of this program that a test starts: the store it is to work on.
const CHILD: &str = "INNKEEPER_TEST_STORE";

/// Starts this program again, to run the one test `name` with the store at `path`.
fn child(name: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", &format!("store::tests::{name}")])
        .env(CHILD, path)
        .stdout(Stdio::piped());
    command
}

fn in_child() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

#[test]
fn a_second_process_hears_that_the_store_is_in_use() {
    if let Some(path) = in_child() {
        let error = Store::open(&path).unwrap_err();
        println!("\nsays: {error}");
        return;
    }
    let (home, _store) = fresh();
    let path = home.path().join("store");
    let output = child("a_second_process_hears_that_the_store_is_in_use", &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("is in use: the bot is alive"), "{said}");
}

/// Moves money for ever, saying the number of each turn whose booking is on disk.
fn work_until_killed(path: &Path) {
    let store = Store::open(path).unwrap();
    store.put_chat(&chat(THREAD)).unwrap();
    let site = permit(ADA, "site", u64::MAX, None, NOW);
    let mut out = std::io::stdout();
    for id in 1.. {
        store.put_turn(&turn(id, THREAD, Stage::Waiting)).unwrap();
        store.hold(TurnId(id), &site, NOW).unwrap().unwrap();
        store.put_turn(&turn(id, THREAD, Stage::Started)).unwrap();
        store.settle(TurnId(id), Usd(id), false, NOW).unwrap();
        store.put_turn(&turn(id, THREAD, Stage::Done)).unwrap();
        if id % 7 == 0 {
            store.flush_here().unwrap();
            writeln!(out, "\nbooked {id}").unwrap();
        }
    }
}

#[test]
fn a_kill_at_any_moment_loses_and_doubles_nothing() {
    if let Some(path) = in_child() {
        return work_until_killed(&path);
    }
    for round in [1, 2, 9, 40] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store");
        let mut child = child("a_kill_at_any_moment_loses_and_doubles_nothing", &path)
            .spawn()
            .unwrap();
        let booked: u64 = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap)
            .filter_map(|line| line.strip_prefix("booked ")?.parse().ok())
            .nth(round)
            .unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!(store.check(), Vec::<String>::new());
        for id in 1..=booked {
            assert_eq!(store.entry(TurnId(id)).unwrap().unwrap().cost, Usd(id));
        }
        for turn in store.unfinished().unwrap() {
            if store.held(turn.id).unwrap().is_some() {
                assert!(store.settle(turn.id, Usd(1), true, NOW).unwrap());
            }
        }
        let usage = store.usage(ADA, &slug("site"), NOVEMBER).unwrap();
        assert_eq!(usage.guest.held, Usd::ZERO);
    }
}

#[test]
fn a_wish_to_stop_outlives_whoever_keeps_the_turn_without_knowing_of_it() {
    let (_home, store) = fresh();
    let running = turn(1, THREAD, Stage::Started);
    store.put_turn(&running).unwrap();
    let wished = store.wish_stop(running.id, ADA).unwrap().unwrap();
    assert_eq!(wished.stage, Stage::Started);
    store.put_turn(&running).unwrap();
    let kept = store.turn(running.id).unwrap().unwrap();
    assert_eq!(kept.stopped_by, Some(ADA));
    // The first to wish it is remembered.
    store.wish_stop(running.id, OWNER).unwrap();
    let kept = store.turn(running.id).unwrap().unwrap();
    assert_eq!(kept.stopped_by, Some(ADA));
}

#[test]
fn what_waits_unseen_is_done_when_it_is_stopped_and_what_is_over_stays_as_it_was() {
    let (_home, store) = fresh();
    let unseen = turn(1, THREAD, Stage::Waiting);
    let mut seen = turn(2, THREAD, Stage::Waiting);
    seen.shown = true;
    let over = turn(3, THREAD, Stage::Done);
    store.put_turns(&[unseen, seen, over]).unwrap();
    let stage = |id| {
        let wished = store.wish_stop(TurnId(id), ADA).unwrap();
        wished.map(|record| record.stage)
    };
    assert_eq!(stage(1), Some(Stage::Done));
    assert_eq!(stage(2), Some(Stage::Waiting));
    assert_eq!(stage(3), None);
    let open = store.open_turns(THREAD).unwrap();
    assert_eq!(open.len(), 1, "the index knows: {open:?}");
}

#[test]
fn turns_are_replaced_together_or_not_at_all() {
    let (_home, store) = fresh();
    let before = [
        turn(1, THREAD, Stage::Waiting),
        turn(2, THREAD, Stage::Waiting),
    ];
    store.put_turns(&before).unwrap();
    let after = [turn(1, THREAD, Stage::Held), turn(2, THREAD, Stage::Done)];
    store
        .revise_waiting(TurnId(2), |record| record.request.text = "edited".into())
        .unwrap();
    assert!(!store.replace_turns(&before, &after).unwrap());
    assert_eq!(store.open_turns(THREAD).unwrap().len(), 2);
    let before = store.open_turns(THREAD).unwrap();
    assert!(store.replace_turns(&before, &after).unwrap());
    assert_eq!(store.turn(TurnId(1)).unwrap().as_ref(), Some(&after[0]));
    assert_eq!(store.open_turns(THREAD).unwrap().len(), 1);
}
