//! Keeps the rooms of the house apart: reads every file under `src` and holds the paths in it against the rules.
//!
//! It reads words, not types, so it needs no build: comments and texts are skipped, `use` trees are spread out, and
//! `super` is followed to the room it leads to.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Each room and those it may know. `app` and the two files beside the rooms build everything.
const ARROWS: [(&str, &[&str]); 11] = [
    ("domain", &[]),
    ("agent", &["domain"]),
    ("turn", &["agent", "domain"]),
    ("present", &["turn", "agent", "domain"]),
    ("store", &["domain"]),
    ("sandbox", &["domain"]),
    ("meter", &["domain"]),
    (
        "driver",
        &[
            "present", "turn", "agent", "domain", "store", "sandbox", "meter",
        ],
    ),
    (
        "admin",
        &[
            "driver", "present", "turn", "agent", "domain", "store", "sandbox", "meter",
        ],
    ),
    (
        "discord",
        &[
            "admin", "driver", "present", "turn", "agent", "domain", "store", "sandbox", "meter",
        ],
    ),
    ("standin", &[]),
];

/// Rooms that only compute.
const PURE: [&str; 4] = ["domain", "agent", "turn", "present"];

/// Crates that wait, reach out or keep something: not for pure rooms.
const WORLDLY: [&str; 5] = ["tokio", "reqwest", "sled", "serenity", "poise"];

/// Crates that only some rooms name.
const RESERVED: [(&str, &[&str]); 5] = [
    ("serenity", &["discord"]),
    ("poise", &["discord"]),
    ("sled", &["store"]),
    ("reqwest", &["sandbox", "meter", "discord"]),
    ("metrics", &["driver", "sandbox", "meter", "discord"]),
];

/// Types whose `now` tells the time of day.
const CLOCKS: [&str; 6] = [
    "SystemTime",
    "Timestamp",
    "Zoned",
    "Utc",
    "Local",
    "OffsetDateTime",
];

/// What reads the environment, the command line or the configuration.
const SURROUNDINGS: [[&str; 2]; 6] = [
    ["env", "var"],
    ["env", "var_os"],
    ["env", "vars"],
    ["env", "vars_os"],
    ["env", "args"],
    ["env", "args_os"],
];

/// The traits that the house has.
const TRAITS: [&str; 3] = ["Surface", "Sandbox", "Clock"];

#[test]
fn every_file_keeps_the_rules_of_the_house() {
    let sources = sources_in(&root());
    assert!(
        sources.len() > 20,
        "only {} files were found",
        sources.len()
    );
    let breaches: Vec<String> = sources
        .iter()
        .flat_map(breaches)
        .map(|breach| breach.to_string())
        .collect();
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn every_directory_under_src_is_a_room_with_arrows() {
    let mut rooms: Vec<String> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    rooms.sort();
    let mut known: Vec<&str> = ARROWS
        .iter()
        .map(|(room, _)| *room)
        .chain(["app"])
        .collect();
    known.sort();
    assert_eq!(rooms, known);
}

#[test]
fn no_trait_of_the_house_has_a_single_implementer() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let texts: Vec<String> = [root(), tests]
        .iter()
        .flat_map(|directory| sources_in(directory))
        .map(|source| source.text)
        .collect();
    for name in TRAITS {
        let pattern = format!(r"(?m)^\s*impl(?:<[^{{]*>)? (?:\w+::)*{name} for ");
        let pattern = regex::Regex::new(&pattern).unwrap();
        let count: usize = texts
            .iter()
            .map(|text| pattern.find_iter(text).count())
            .sum();
        assert_ne!(
            count, 1,
            "{name}: without a second implementer it is a detour"
        );
    }
}

#[test]
fn a_bad_line_is_found() {
    let cases = [
        ("domain/x.rs", "use tokio::time::sleep;", "tokio"),
        ("domain/x.rs", "use crate::agent::event;", "agent"),
        (
            "domain/x.rs",
            "fn f() { let a = crate::store::Store; }",
            "store",
        ),
        (
            "agent/x.rs",
            "use super::super::driver::ports::Ports;",
            "driver",
        ),
        (
            "agent/x.rs",
            "use std::{fmt, time::{Duration, Instant}};",
            "time",
        ),
        (
            "turn/x.rs",
            "use crate::{domain::ids, present::live};",
            "present",
        ),
        (
            "turn/x.rs",
            "fn f() { std::time::SystemTime::now(); }",
            "time",
        ),
        ("present/x.rs", "use ::reqwest as net;", "reqwest"),
        ("store/x.rs", "use crate::driver::clock::Clock;", "driver"),
        (
            "sandbox/x.rs",
            "fn f() { crate::agent::rules::f(); }",
            "agent",
        ),
        (
            "sandbox/x.rs",
            "fn f() { std::env::var(\"HOME\"); }",
            "environment",
        ),
        (
            "sandbox/x.rs",
            "use std::env; fn f() { env::vars(); }",
            "environment",
        ),
        ("meter/x.rs", "fn f() { sled::open(\"x\"); }", "sled"),
        (
            "meter/x.rs",
            "use jiff::Timestamp; fn f() { Timestamp::now(); }",
            "time",
        ),
        ("driver/x.rs", "use serenity::all::Message;", "serenity"),
        ("driver/x.rs", "use crate::admin::Office;", "admin"),
        ("driver/x.rs", "use crate::app::config::Settings;", "app"),
        ("driver/x.rs", "fn f() { SystemTime::now(); }", "time"),
        ("driver/x.rs", "fn f() { reqwest::get(\"x\"); }", "reqwest"),
        ("admin/x.rs", "use crate::discord::client;", "discord"),
        (
            "admin/x.rs",
            "fn f() { metrics::counter!(\"x\"); }",
            "metrics",
        ),
        ("admin/x.rs", "pub trait Office {}", "trait"),
        ("discord/x.rs", "use crate::standin::Standin;", "standin"),
        ("discord/x.rs", "use figment::Figment;", "figment"),
        ("standin/x.rs", "use crate::domain::ids;", "domain"),
        (
            "standin/rest/x.rs",
            "use super::super::super::domain::ids;",
            "domain",
        ),
        ("app/x.rs", "use serenity::all::Token;", "serenity"),
        (
            "domain/x.rs",
            "#[cfg(test)] mod tests { use crate::driver::ports; }",
            "driver",
        ),
        (
            "domain/x.rs",
            "#[cfg(test)] mod tests { fn f() {} } use tokio::time;",
            "tokio",
        ),
        (
            "domain/x.rs",
            "#[cfg(test)] use a::b; use tokio::time;",
            "tokio",
        ),
        ("domain/x.rs", "#[tokio::main] fn f() {}", "tokio"),
        (
            "domain/x.rs",
            "fn f() { let c = '\"'; tokio::spawn(g()); let d = '\"'; }",
            "tokio",
        ),
    ];
    for (file, text, expected) in cases {
        let found = breaches(&source(file, text));
        let named = found.iter().any(|breach| breach.what.contains(expected));
        assert!(named, "{file}: {text}: {found:?}");
    }
}

#[test]
fn a_good_line_is_left_alone() {
    let cases = [
        (
            "domain/x.rs",
            "//! Never tokio::spawn.\n/* crate::driver::x */ const A: &str = \"crate::store::x\";",
        ),
        (
            "domain/x.rs",
            "const A: &str = r#\"a \" tokio::spawn\"#; const B: u8 = b'\\''; fn f<'a>(x: &'a str) {}",
        ),
        (
            "domain/x.rs",
            "#[cfg(test)] mod tests { #[tokio::test] async fn f() {} }",
        ),
        (
            "domain/tests.rs",
            "#[tokio::test] async fn f() { tokio::time::pause(); }",
        ),
        (
            "domain/x.rs",
            "use super::ids::MemberId; mod metrics { use super::super::agent; }",
        ),
        (
            "domain/x.rs",
            "use std::time::Duration; use jiff::Timestamp; fn f() { Timestamp::UNIX_EPOCH; }",
        ),
        (
            "present/x.rs",
            "use crate::{turn::machine, agent::event::{self, Event}, domain::*};",
        ),
        (
            "sandbox/x.rs",
            "use tokio::time::Instant; fn f() { Instant::now(); std::env::temp_dir(); env!(\"A\"); }",
        ),
        ("store/tests.rs", "fn f() { std::env::var(\"CHILD\"); }"),
        ("discord/tests.rs", "fn f() { SystemTime::now(); }"),
        ("store/x.rs", "pub(super) trait AnyTable {} trait Row {}"),
        (
            "driver/clock.rs",
            "fn f() { SystemTime::now(); } pub trait Clock {}",
        ),
        (
            "standin/x.rs",
            "fn f() { SystemTime::now(); } use super::world; use crate::standin::limits;",
        ),
        (
            "app/x.rs",
            "use crate::standin::Standin; use figment::Figment; fn f() { std::env::vars_os(); }",
        ),
        ("lib.rs", "pub mod domain; use crate::driver::x;"),
    ];
    for (file, text) in cases {
        assert_eq!(breaches(&source(file, text)), [], "{file}: {text}");
    }
}

/// One file under `src`.
struct Source {
    /// Its path below `src`.
    file: PathBuf,
    text: String,
}

/// One place that breaks a rule.
#[derive(Debug, PartialEq)]
struct Breach {
    file: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "src/{}:{}: {}",
            self.file.display(),
            self.line,
            self.what
        )
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn source(file: &str, text: &str) -> Source {
    Source {
        file: PathBuf::from(file),
        text: text.to_owned(),
    }
}

fn sources_in(root: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(Source {
                    text: fs::read_to_string(&path).unwrap(),
                    file: path.strip_prefix(root).unwrap().to_owned(),
                });
            }
        }
    }
    found
}

/// Returns every place in the file that breaks a rule.
fn breaches(source: &Source) -> Vec<Breach> {
    let module = module_of(&source.file);
    let Some(room) = module
        .first()
        .filter(|_| source.file.components().count() > 1)
    else {
        return Vec::new();
    };
    let mut found: BTreeMap<(usize, String), ()> = BTreeMap::new();
    for mention in mentions(&source.text, &module, is_test_file(&source.file)) {
        for what in judge(room, &source.file, &mention) {
            found.insert((mention.line, what), ());
        }
    }
    found
        .into_keys()
        .map(|(line, what)| Breach {
            file: source.file.clone(),
            line,
            what,
        })
        .collect()
}

/// Returns what is wrong with one path in a file of this room.
fn judge(room: &str, file: &Path, mention: &Mention) -> Vec<String> {
    let mut wrong = Vec::new();
    let path: Vec<&str> = mention.path.iter().map(String::as_str).collect();
    let shown = path.join("::");
    match path.as_slice() {
        ["trait", name] => {
            if room != "standin" && !TRAITS.contains(name) {
                wrong.push(format!(
                    "the house has no trait {name}: a trait wants two implementers"
                ));
            }
            return wrong;
        }
        ["crate", other, ..] if is_room(other) && *other != room && !may_know(room, other) => {
            wrong.push(format!("{room} must not know {other}: {shown}"));
        }
        _ => {}
    }
    let first = path.first().copied().unwrap_or_default();
    let pure = PURE.contains(&room);
    if pure && WORLDLY.contains(&first) && !(mention.in_test && first == "tokio") {
        wrong.push(format!("{room} is pure and must not name {first}: {shown}"));
    }
    if let Some((_, rooms)) = RESERVED.iter().find(|(name, _)| *name == first)
        && !rooms.contains(&room)
    {
        wrong.push(format!(
            "only {} may name {first}: {shown}",
            rooms.join(", ")
        ));
    }
    let may_ask = room == "standin" || file == Path::new("driver/clock.rs");
    if tells_time(&path, pure) && !may_ask && (pure || !mention.in_test) {
        wrong.push(format!("only driver/clock.rs reads the time: {shown}"));
    }
    if room != "app" {
        if first == "figment" || first == "clap" {
            wrong.push(format!("only app may name {first}: {shown}"));
        }
        let reads = path
            .windows(2)
            .any(|pair| SURROUNDINGS.iter().any(|what| what == pair));
        if reads && !mention.in_test {
            wrong.push(format!("only app reads the environment: {shown}"));
        }
    }
    wrong
}

fn is_room(name: &str) -> bool {
    name == "app" || ARROWS.iter().any(|(room, _)| *room == name)
}

fn may_know(room: &str, other: &str) -> bool {
    room == "app"
        || ARROWS
            .iter()
            .any(|(from, to)| *from == room && to.contains(&other))
}

/// Returns whether a path asks a clock; pure rooms do not even name one that only runs.
fn tells_time(path: &[&str], pure: bool) -> bool {
    let now = path
        .windows(2)
        .any(|pair| CLOCKS.contains(&pair[0]) && pair[1] == "now");
    now || (pure
        && path
            .iter()
            .any(|part| ["Instant", "SystemTime"].contains(part)))
}

/// Returns whether the whole file is tests, which their parent declares under `#[cfg(test)]`.
fn is_test_file(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "tests.rs")
        || file.components().any(|part| part.as_os_str() == "tests")
}

/// Returns the module that a file is, from the crate's root.
fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<String> = file
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

/// One path in the code, `crate` first where it leads into this crate.
struct Mention {
    line: usize,
    path: Vec<String>,
    in_test: bool,
}

/// A block that is open: its depth in braces, the module that it is, and whether it is test code.
struct Block {
    depth: usize,
    module: Option<String>,
    in_test: bool,
}

/// Reads the code word by word and collects paths.
struct Reader<'a> {
    words: &'a [Word],
    at: usize,
    file_module: &'a [String],
    file_is_test: bool,
    blocks: Vec<Block>,
    depth: usize,
    /// Set after `#[cfg(test)]`, until the item that it belongs to has begun or ended.
    test_item: bool,
    mentions: Vec<Mention>,
}

fn mentions(text: &str, file_module: &[String], file_is_test: bool) -> Vec<Mention> {
    let words = words(text);
    let mut reader = Reader {
        words: &words,
        at: 0,
        file_module,
        file_is_test,
        blocks: Vec::new(),
        depth: 0,
        test_item: false,
        mentions: Vec::new(),
    };
    while reader.at < words.len() {
        reader.step();
    }
    reader.mentions
}

impl Reader<'_> {
    fn word(&self, ahead: usize) -> &str {
        self.words
            .get(self.at + ahead)
            .map_or("", |word| &word.text)
    }

    fn in_test(&self) -> bool {
        self.file_is_test || self.test_item || self.blocks.iter().any(|block| block.in_test)
    }

    fn step(&mut self) {
        let cfg_test = ["#", "[", "cfg", "(", "test", ")", "]"];
        if (0..cfg_test.len()).all(|ahead| self.word(ahead) == cfg_test[ahead]) {
            self.test_item = true;
            self.at += cfg_test.len();
            return;
        }
        match self.word(0) {
            "use" => self.use_tree(),
            "mod" if self.word(2) == "{" => {
                let module = self.word(1).to_owned();
                self.at += 2;
                self.open(Some(module));
            }
            // One that does not leave its room is that room's own business.
            "trait" if self.at > 0 && self.words[self.at - 1].text == "pub" => {
                let path = vec!["trait".to_owned(), self.word(1).to_owned()];
                self.mention(path);
                self.at += 2;
            }
            "{" => self.open(None),
            "}" => self.close(),
            ";" => {
                self.test_item = false;
                self.at += 1;
            }
            word if is_name(word) || word == "::" => self.path(),
            _ => self.at += 1,
        }
    }

    fn open(&mut self, module: Option<String>) {
        self.depth += 1;
        self.blocks.push(Block {
            depth: self.depth,
            module,
            in_test: std::mem::take(&mut self.test_item),
        });
        self.at += 1;
    }

    fn close(&mut self) {
        while self
            .blocks
            .last()
            .is_some_and(|block| block.depth >= self.depth)
        {
            self.blocks.pop();
        }
        self.depth = self.depth.saturating_sub(1);
        self.at += 1;
    }

    /// Takes a path in an expression or a type: names joined by `::`.
    fn path(&mut self) {
        let mut path = Vec::new();
        if self.word(0) == "::" {
            self.at += 1;
        }
        while is_name(self.word(0)) {
            path.push(self.word(0).to_owned());
            if self.word(1) == "::" && is_name(self.word(2)) {
                self.at += 2;
            } else {
                break;
            }
        }
        if path.len() > 1 {
            self.mention(path);
        }
        self.at += 1;
    }

    /// Takes a whole `use`, its tree spread out into paths.
    fn use_tree(&mut self) {
        self.at += 1;
        let mut stems: Vec<Vec<String>> = vec![Vec::new()];
        let mut path: Vec<String> = Vec::new();
        while self.at < self.words.len() {
            match self.word(0) {
                "{" => stems.push(path.clone()),
                "," | "}" | ";" => {
                    self.mention(path);
                    if self.word(0) == "}" {
                        stems.pop();
                    }
                    path = stems.last().cloned().unwrap_or_default();
                }
                "as" => self.at += 1,
                word if is_name(word) || word == "*" => path.push(word.to_owned()),
                _ => {}
            }
            let end = self.word(0) == ";";
            if end {
                break;
            }
            self.at += 1;
        }
    }

    /// Notes a path, with `self` and `super` followed from where it stands.
    fn mention(&mut self, path: Vec<String>) {
        let inner = self.blocks.iter().filter_map(|block| block.module.clone());
        let mut here: Vec<String> = self.file_module.iter().cloned().chain(inner).collect();
        let mut rest = path.as_slice();
        let mut is_own = false;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "self" => {}
                "super" => drop(here.pop()),
                _ => break,
            }
            is_own = true;
            rest = others;
        }
        let path = match is_own {
            true => std::iter::once("crate".to_owned())
                .chain(here)
                .chain(rest.iter().cloned())
                .collect(),
            false => path,
        };
        let line = self.words.get(self.at).map_or(0, |word| word.line);
        self.mentions.push(Mention {
            line,
            path,
            in_test: self.in_test(),
        });
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// One word or sign of the code.
#[derive(Debug)]
struct Word {
    text: String,
    line: usize,
}

/// Takes code apart; comments, texts, characters and lifetimes are left out.
fn words(text: &str) -> Vec<Word> {
    let skipped = r##"(?s)//[^\n]*|b?r(?P<hash>#*)""##;
    // Raw texts end with as many # as they begin with, which a regular expression cannot count: they are cut by hand.
    let pattern = regex::Regex::new(&format!(
        r#"{skipped}|b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\\n]|\\[^\n]+?)'|'[A-Za-z_]\w*|(?P<block>/\*)|(?P<word>[A-Za-z_]\w*|::|[^\s])"#
    ))
    .unwrap();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(captures) = pattern.captures_at(text, at) {
        let whole = captures.get(0).unwrap();
        at = whole.end();
        if captures.name("block").is_some() {
            at = end_of_comment(text, whole.start());
        } else if let Some(hash) = captures.name("hash") {
            let end = format!("\"{}", hash.as_str());
            at += text[at..]
                .find(&end)
                .map_or(text.len() - at, |length| length + end.len());
        } else if let Some(word) = captures.name("word") {
            found.push(Word {
                text: word.as_str().to_owned(),
                line: text[..word.start()].matches('\n').count() + 1,
            });
        }
    }
    found
}

/// Returns where a block comment ends; they may hold others.
fn end_of_comment(text: &str, start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}
