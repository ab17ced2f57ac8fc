//! Tries the verdict itself: a small world in which all is well must pass it, and each of the faults that it is there to find must
//! be found in it.

use innkeeper::store::Store;
use serde_json::{Value, json};

use super::people::{By, People, Request};
use super::trouble::Trouble;
use super::verdict::{self, Evidence};

/// One request, served, with a file: message 100 and its thread, live message 101, answer 102.
struct World {
    world: Value,
    turn: Value,
    ledger: Value,
    performed: &'static str,
    written: &'static str,
    tally: &'static str,
    people: Vec<Request>,
    requests: Vec<Value>,
}

impl World {
    fn well() -> World {
        World {
            world: json!({"guilds": [{"name": "House", "channels": [{
                "name": "one", "id": "7",
                "messages": [{"id": "100", "author": "ada", "content": "@innkeeper please"}],
                "threads": [{"name": "please", "id": "100", "messages": [
                    {"id": "101", "author": "innkeeper", "content": "-# ✓ 1 step", "flags": 4096, "components": [
                        {"type": 1, "components": [{"type": 2, "custom_id": "1:details:100"}]},
                    ]},
                    {"id": "102", "author": "innkeeper", "content": "answer r1", "attachments": [{"name": "r1.txt"}]},
                ]}],
            }]}]}),
            turn: json!({
                "id": 100, "thread": 100, "stage": "Done", "project": "site", "level": "chat", "model": "haiku",
                "request": {
                    "author": {"member": 2, "name": "ada", "roles": []}, "text": "!bash echo r1 >>performed",
                    "attachments": [], "quotes": [], "described": [], "message": 100, "model": null,
                },
                "hold": 1_000_000, "month": {"year": 2026, "month": 11}, "started_at": 1_794_744_000_000_i64,
                "session": "s", "resumes": false, "live": 101, "seen": 9, "stopped_by": null,
                "parts": [{"text": "answer r1", "files": [], "sent": {"Yes": 102}}], "receipt": "-# ✓ 1 step",
            }),
            ledger: json!({
                "turn": 100, "member": 2, "project": "site", "month": {"year": 2026, "month": 11}, "cost": 500,
                "estimated": true, "at": 1_794_744_000_000_i64,
            }),
            performed: "r1\n",
            written: "r1\n",
            tally: "{\"session\":\"s\",\"cost\":500}\n",
            people: vec![Request {
                message: Some(100),
                by: By::Mention,
                mark: "r1".to_owned(),
                writes: true,
                deleted: false,
            }],
            requests: Vec::new(),
        }
    }

    /// Returns the thread's messages.
    fn thread(&mut self) -> &mut Vec<Value> {
        let channel = &mut self.world["guilds"][0]["channels"][0];
        channel["threads"][0]["messages"].as_array_mut().unwrap()
    }

    fn faults(self) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let chat = json!({
            "thread": 100, "place": 100, "parent": 7, "guild": 5, "owner": 2, "projects": ["site"], "model": "haiku",
            "session": {"id": "s", "begun": true}, "account": "k3v9x2ab", "workdir": "~/chat", "word": "larch",
            "listen": "All", "opened_at": 5, "closed": false,
        });
        let lines: String = [
            ("chats", chat),
            ("turns", self.turn),
            ("ledger", self.ledger),
        ]
        .into_iter()
        .map(|(tree, value)| {
            let line = json!({"v": 1, "tree": tree, "key": format!("{:020}", 100), "value": value});
            format!("{line}\n")
        })
        .collect();
        let path = folder.path().join("store");
        Store::import(&path, lines.as_bytes()).unwrap();
        let evidence = Evidence {
            world: self.world,
            store: Store::open(&path).unwrap(),
            performed: self.performed.to_owned(),
            written: self.written.to_owned(),
            tally: self.tally.to_owned(),
            requests: self.requests,
        };
        let mut people = People::new();
        people.requests = self.people;
        verdict::judge(&evidence, &people, &Trouble::default()).faults
    }
}

/// A fault: what is done to a world in which all is well, and words of what the verdict must say of it.
type Fault = (&'static str, fn(&mut World));

const FAULTS: [Fault; 14] = [
    ("belongs to nothing", |world| {
        let again = world.thread()[1].clone();
        world.thread().push(again);
        world.thread()[2]["id"] = json!("103");
    }),
    ("r1.txt was attached 2 times", |world| {
        let file = json!({"name": "r1.txt"});
        world.thread()[1]["attachments"] = json!([file, file]);
    }),
    ("counts as sent and is not there", |world| {
        world.thread().pop();
    }),
    ("was never sent", |world| {
        world.turn["parts"][0]["sent"] = json!("Trying");
    }),
    ("r1.txt was written and is nowhere attached", |world| {
        world.thread()[1]["attachments"] = json!([]);
    }),
    ("the ledger says 501, the agent 500", |world| {
        world.ledger["cost"] = json!(501);
    }),
    ("the ledger says 500, the agent 1000", |world| {
        world.tally = "{\"session\":\"s\",\"cost\":500}\n{\"session\":\"s\",\"cost\":500}\n";
    }),
    ("message 101 still works", |world| {
        world.thread()[0]["components"][0]["components"][0]["custom_id"] = json!("1:stop:100");
    }),
    ("2 receipts have", |world| {
        let again = world.thread()[0].clone();
        world.thread().push(again);
        world.thread()[2]["id"] = json!("103");
    }),
    ("was performed 2 times", |world| {
        world.performed = "r1\nr1\n"
    }),
    ("a request is lost", |world| {
        world.people[0].message = Some(99)
    }),
    ("ended without a word", |world| {
        world.performed = "";
        world.written = "";
        world.turn["parts"] = json!([]);
        world.thread().pop();
    }),
    ("a stranger was served", |world| {
        world.people[0].by = By::Stranger
    }),
    ("two requests at once", |world| {
        let request = |began: &str, time: &str| json!({"method": "POST", "path": "/api/v10/channels/7/messages", "began": began, "time": time});
        world.requests = vec![
            request("2026-11-30T00:00:00.000Z", "2026-11-30T00:00:00.300Z"),
            request("2026-11-30T00:00:00.200Z", "2026-11-30T00:00:00.400Z"),
        ];
    }),
];

/// Returns what the verdict does not see, and what it sees where nothing is.
pub(crate) fn blind_spots() -> Vec<String> {
    let mut spots: Vec<String> = World::well()
        .faults()
        .iter()
        .map(|fault| format!("the verdict finds fault with a world in which all is well: {fault}"))
        .collect();
    for (words, spoil) in FAULTS {
        let mut world = World::well();
        spoil(&mut world);
        let found = world.faults();
        if !found.iter().any(|fault| fault.contains(words)) {
            spots.push(format!("the verdict does not see {words:?}: {found:?}"));
        }
    }
    spots
}
