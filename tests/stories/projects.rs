//! A chat with several projects: each counts in a turn only for an author who holds it.

use std::fs;

use innkeeper::domain::grant::Level;
use serde_json::{Value, json};

use crate::house::House;

/// What a turn was started with.
struct Scope {
    /// Rules of the file tools that let it change something.
    edits: Vec<String>,
    prompt: String,
}

fn scope(house: &House, thread: &str, turn: &str) -> Scope {
    let file = |name: &str| {
        let path = format!(".innkeeper/chats/{thread}/turns/{turn}/{name}");
        fs::read_to_string(house.in_homes(&path)).unwrap()
    };
    let settings: Value = serde_json::from_str(&file("settings.json")).unwrap();
    let allowed = settings["permissions"]["allow"].as_array().unwrap().iter();
    Scope {
        edits: allowed
            .filter_map(|rule| Some(rule.as_str()?.to_owned()))
            .filter(|rule| rule.starts_with("Edit("))
            .collect(),
        prompt: file("prompt.md"),
    }
}

impl Scope {
    fn may_change(&self, directory: &str) -> bool {
        let rule = format!("/{directory}/**)");
        self.edits.iter().any(|edit| edit.ends_with(&rule))
    }

    fn tells_of(&self, project: &str, level: Level) -> bool {
        let line = self
            .prompt
            .lines()
            .find(|line| line.starts_with(&format!("- `{project}`")));
        line.is_some_and(|line| line.contains(&format!("holds **{level}**")))
    }
}

#[tokio::test]
async fn further_projects_count_for_those_alone_who_hold_them() {
    let house = House::open().await;
    let thread = house.says("ada", "data", "@innkeeper hello").await;
    house.answers(&thread, 1).await;
    house.grant("ada", "notes", Level::Chat).await;
    house.grant("ben", "notes", Level::View).await;
    let added = house
        .command("ada", &thread, "add-project", json!({"project": "notes"}))
        .await;
    assert!(added.starts_with("✓ `notes`"), "{added}");
    let notes = format!("chat-{thread}-notes");

    let hers = house
        .says(
            "ada",
            &thread,
            "both\n!bash echo hers > ../chat-$(basename $PWD | cut -d- -f2)-notes/a.txt",
        )
        .await;
    house.answers(&thread, 2).await;
    let with = scope(&house, &thread, &hers);
    assert!(with.may_change(&notes), "{:?}", with.edits);
    assert!(
        with.tells_of("site", Level::Chat) && with.tells_of("notes", Level::Chat),
        "{}",
        with.prompt
    );
    let made = house.in_homes(&format!("{notes}/a.txt"));
    assert_eq!(fs::read_to_string(made).unwrap(), "hers\n");

    // To see a project is not to work in it.
    let his = house.says("ben", &thread, "and I").await;
    house.answers(&thread, 3).await;
    let without = scope(&house, &thread, &his);
    assert!(!without.may_change(&notes), "{:?}", without.edits);
    assert!(
        without.tells_of("site", Level::Chat) && !without.prompt.contains("`notes`"),
        "{}",
        without.prompt
    );

    // Who loses it while a turn works in it is stopped; who has lost it goes on without it.
    let running = house.says("ada", &thread, "on\n!wait-for .go").await;
    house.live(&thread).await;
    house
        .wait("the agent", || {
            house.told(&thread, &running).contains("wait-for")
        })
        .await;
    let taken = json!({"project": "notes", "member": "ada"});
    house.command("alma", "staffroom", "revoke", taken).await;
    house.answers(&thread, 4).await;
    let told = house.thread(&thread).await.bots();
    assert!(
        told.iter()
            .any(|message| message.text().contains("access has ended")),
        "{}",
        house.transcript()
    );
    let later = house.says("ada", &thread, "without it").await;
    house.answers(&thread, 5).await;
    let lost = scope(&house, &thread, &later);
    assert!(
        !lost.may_change(&notes) && !lost.prompt.contains("`notes`"),
        "{}",
        lost.prompt
    );
    house.closes_quietly().await;
}
