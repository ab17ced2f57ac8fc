//! The program as scripts see it: what it prints where, and the code that it ends with.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::path::Path;
use std::process::{Command, Stdio};

/// What the program gave.
struct Ended {
    code: i32,
    out: String,
    err: String,
}

/// Runs the program in this directory with nothing but these variables.
fn innkeeper(directory: &Path, words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_innkeeper"))
        .args(words)
        .env_clear()
        .envs(variables.iter().copied())
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

const TOKEN: (&str, &str) = (
    "INNKEEPER_DISCORD__TOKEN",
    "MTE1NjI3ODkwMTIzNDU2Nzg5MA.GaBcDe.secret-part",
);

#[test]
fn check_names_every_missing_key_and_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let ended = innkeeper(folder.path(), &["check", "--json"], &[TOKEN]);
    assert_eq!(ended.code, 2, "{}", ended.err);
    let findings: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let told: Vec<&str> = findings
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["what"].as_str().unwrap())
        .collect();
    for key in ["discord.guilds", "discord.owners", "sandbox.backend"] {
        let named = told.iter().any(|what| what.contains(key));
        assert!(named, "{key}: {told:?}");
    }
    assert!(!ended.out.contains("secret-part"), "{}", ended.out);
}

#[test]
fn check_reads_the_usual_file_of_the_working_directory() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    let file = folder.path().join("config/innkeeper.toml");
    std::fs::write(file, "[discord]\ngilds = [1]\n").unwrap();
    let ended = innkeeper(folder.path(), &["check"], &[]);
    assert_eq!(ended.code, 2);
    let expected = "config/innkeeper.toml: discord.gilds is no key: do you mean guilds?";
    assert!(ended.out.contains(expected), "{}", ended.out);
}

#[test]
fn invite_prints_the_address_alone_and_ends_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let ended = innkeeper(folder.path(), &["invite"], &[TOKEN]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    assert_eq!(
        ended.out,
        "https://discord.com/oauth2/authorize?client_id=1156278901234567890\
         &scope=bot%20applications.commands&integration_type=0&permissions=309237763136\n"
    );
}

#[test]
fn what_cannot_be_used_ends_with_2_and_a_sentence_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let no_token = [("INNKEEPER_DISCORD__TOKEN", "hush")];
    let placeholder = [
        ("INNKEEPER_DISCORD__TOKEN", "put-the-bot-token-here"),
        ("INNKEEPER_DISCORD__GUILDS", "7"),
        ("INNKEEPER_DISCORD__OWNERS", "8"),
        ("INNKEEPER_SANDBOX__BACKEND", "local"),
    ];
    let cases = [
        (
            ["invite", "--config", "nowhere.toml"].as_slice(),
            [].as_slice(),
            "nowhere.toml: does not exist",
        ),
        (&["invite"], &[], "discord.token is missing"),
        (&["invite"], &no_token, "discord.token is no bot's token"),
        (
            &["--config", "nowhere.toml", "store", "check"],
            &[],
            "nowhere.toml: does not exist",
        ),
        (
            &["run"],
            &placeholder,
            "discord.token is still the example's placeholder",
        ),
        (&["serve"], &[], "unrecognized subcommand"),
    ];
    for (words, variables, expected) in cases {
        let ended = innkeeper(folder.path(), words, variables);
        assert_eq!(ended.code, 2, "{words:?}");
        assert!(ended.err.contains(expected), "{words:?}: {}", ended.err);
        assert_eq!(ended.out, "", "{words:?}");
        assert!(!ended.err.contains("hush"), "{}", ended.err);
    }
}

#[test]
fn a_store_or_a_file_that_is_not_there_is_told_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        (
            ["store", "import", "nofile"].as_slice(),
            "nofile cannot be read: ",
        ),
        (&["store", "check"], "there is no store at data/store\n"),
    ];
    for (words, expected) in cases {
        let ended = innkeeper(folder.path(), words, &[]);
        assert_eq!(ended.code, 1, "{words:?}");
        assert!(ended.err.starts_with(expected), "{words:?}: {}", ended.err);
    }
}
