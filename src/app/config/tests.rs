use std::fs;

use secrecy::ExposeSecret;

use super::*;
use crate::domain::ids::{ChannelId, GuildId, MemberId};
use crate::domain::money::Usd;
use crate::domain::project::{Collect, Workspace};

const EXAMPLE: &str = include_str!("../../../config/innkeeper.example.toml");

/// The least that a bot can be served with.
const LEAST: &str = r#"
[discord]
token = "A.B.C"
guilds = [7]
owners = ["8"]
[sandbox]
backend = "local"
"#;

/// Reads a configuration from a file with this text and these variables.
fn read_with(text: &str, environment: &[(&str, &str)]) -> Result<Config, Faults> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("innkeeper.toml");
    fs::write(&file, text).unwrap();
    Config::read(&Sources {
        file,
        named: true,
        environment: variables(environment),
        home: None,
    })
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn settings_with(text: &str, environment: &[(&str, &str)]) -> Result<Settings, Faults> {
    read_with(text, environment)?.settings()
}

fn settings(text: &str) -> Settings {
    settings_with(text, &[]).unwrap()
}

/// Returns the faults without their origin, one a line.
fn faults(text: &str) -> String {
    let faults = settings_with(text, &[]).unwrap_err();
    let lines: Vec<String> = faults
        .0
        .iter()
        .map(|fault| format!("{} {}", fault.key, fault.what).trim().to_owned())
        .collect();
    lines.join("\n")
}

/// The least, and this after it.
fn least_and(more: &str) -> String {
    format!("{LEAST}\n{more}")
}

#[test]
fn the_least_configuration_gets_the_documented_defaults() {
    let settings = settings(LEAST);
    assert_eq!(settings.rules.guilds, [GuildId(7)]);
    assert_eq!(settings.rules.owners, [MemberId(8)]);
    assert_eq!(settings.rules.models, ["sonnet"]);
    assert_eq!(settings.rules.limits.budget, Usd::ZERO);
    assert_eq!(settings.rules.limits.turn, Usd(1_000_000));
    assert_eq!(settings.rules.limits.catch_up.as_secs(), 3600);
    assert_eq!(settings.discord.api_url, "https://discord.com");
    assert_eq!(settings.store, PathBuf::from("data/store"));
    assert!(settings.agent.confine && settings.agent.questions);
    assert!(settings.provider.credential.is_none());
    assert_eq!(settings.observe.listen, None);
    assert!(settings.catalogue.0.is_empty());
}

#[test]
fn the_example_is_valid_and_says_what_the_defaults_are() {
    let example = settings(EXAMPLE);
    let least = settings(LEAST);
    assert_eq!(example.agent, least.agent);
    assert_eq!(example.rules.limits, least.rules.limits);
    assert_eq!(example.rules.models, least.rules.models);
    assert_eq!(example.observe, least.observe);
    assert_eq!(example.store, least.store);
    assert_eq!(example.sandbox.workdir, least.sandbox.workdir);
    assert_eq!(example.sandbox.account, least.sandbox.account);
    assert_eq!(example.sandbox.keep, least.sandbox.keep);
    assert_eq!(example.provider.base_url, least.provider.base_url);
    assert_eq!(example.provider.meter_listen, least.provider.meter_listen);
    assert_eq!(example.catalogue.0.len(), 3);
}

#[test]
fn the_example_is_still_valid_when_everything_optional_is_switched_on() {
    // A comment line that begins with a key is an optional key; where both forms of a secret stand, the file's goes.
    let optional =
        regex::Regex::new(r"(?m)^# ((?:[a-z_]+ = |HTTP_PROXY = |\[\[provider).*)$").unwrap();
    let plain = optional.replace_all(EXAMPLE, "$1");
    let secret_file = regex::Regex::new(r"(?m)^[a-z_]+_file = .*$").unwrap();
    let settings = settings(&secret_file.replace_all(&plain, ""));
    assert_eq!(
        settings.rules.admin_channel,
        Some(ChannelId(100000000000000003))
    );
    assert_eq!(settings.provider.prices.len(), 1);
    assert_eq!(settings.agent.env.len(), 1);
    assert!(matches!(
        settings.provider.credential,
        Some(Credential::OauthToken(_))
    ));
}

#[test]
fn the_example_explains_every_key() {
    let mut seen = 0;
    let price = [("provider.price", sections::keys::<sections::Price>())];
    for (section, keys) in sections::all().into_iter().chain(price) {
        assert!(EXAMPLE.contains(&format!("[{section}]")), "[{section}]");
        for key in keys.iter().filter(|key| !["price", "env"].contains(key)) {
            let line = format!("{key} = ");
            let stands = |text: &str| text.trim_start_matches("# ").starts_with(&line);
            assert!(EXAMPLE.lines().any(stands), "{section}.{key}");
            seen += 1;
        }
    }
    assert!(seen > 50, "only {seen} keys were looked for");
}

#[test]
fn the_environment_alone_can_be_a_whole_configuration() {
    let sources = Sources {
        file: PathBuf::from("/no/such/innkeeper.toml"),
        named: false,
        environment: variables(&[
            ("INNKEEPER_DISCORD__TOKEN", "A.B.C"),
            ("INNKEEPER_DISCORD__GUILDS", "7, 9"),
            ("INNKEEPER_DISCORD__OWNERS", "[\"8\"]"),
            ("INNKEEPER_SANDBOX__BACKEND", "open-terminal"),
            ("INNKEEPER_SANDBOX__URL", "http://127.0.0.1:8000/"),
            ("INNKEEPER_SANDBOX__API_KEY", "007"),
            ("INNKEEPER_LIMITS__TURN_USD", "0.5"),
            ("INNKEEPER_LIMITS__RUNNING", "2"),
            ("INNKEEPER_AGENT__QUESTIONS", "false"),
            ("INNKEEPER_AGENT__ENV__HTTP_PROXY", "http://proxy"),
            ("INNKEEPER_TIME__ZONE", ""),
            ("INNKEEPER_PYTHON", "not ours"),
        ]),
        home: None,
    };
    let settings = Config::read(&sources).unwrap().settings().unwrap();
    assert_eq!(settings.rules.guilds, [GuildId(7), GuildId(9)]);
    assert_eq!(settings.rules.owners, [MemberId(8)]);
    assert_eq!(settings.rules.limits.turn, Usd(500_000));
    assert_eq!(settings.rules.limits.running, 2);
    assert!(!settings.agent.questions);
    let proxy = ("HTTP_PROXY".to_owned(), "http://proxy".to_owned());
    assert_eq!(settings.agent.env, [proxy]);
    let Backend::OpenTerminal { url, api_key } = &settings.sandbox.backend else {
        panic!("{:?}", settings.sandbox);
    };
    assert_eq!(
        (url.as_str(), api_key.expose_secret()),
        ("http://127.0.0.1:8000", "007")
    );
}

#[test]
fn the_environment_wins_over_the_file() {
    let settings = settings_with(LEAST, &[("INNKEEPER_DISCORD__GUILDS", "42")]).unwrap();
    assert_eq!(settings.rules.guilds, [GuildId(42)]);
    assert_eq!(settings.rules.owners, [MemberId(8)]);
}

#[test]
fn every_required_key_is_named_at_once_with_the_variable_that_could_give_it() {
    insta::assert_snapshot!(faults(""), @r#"
    discord.token is missing: give the bot's token, or token_file with the path of a file that holds it, here or as INNKEEPER_DISCORD__TOKEN
    discord.guilds is missing: give the ids of the servers to serve here or as INNKEEPER_DISCORD__GUILDS
    discord.owners is missing: give the ids of the people who may do everything here or as INNKEEPER_DISCORD__OWNERS
    sandbox.backend is missing: give "local" or "open-terminal" here or as INNKEEPER_SANDBOX__BACKEND
    "#);
}

#[test]
fn a_missing_key_belongs_into_the_file_even_where_its_section_came_from_the_environment() {
    let sources = Sources {
        file: PathBuf::from("/no/such/innkeeper.toml"),
        environment: variables(&[("INNKEEPER_DISCORD__GUILDS", "7")]),
        ..Sources::default()
    };
    let faults = Config::read(&sources).unwrap().token().unwrap_err();
    let expected = "/no/such/innkeeper.toml (which does not exist): discord.token is missing: ";
    assert!(faults.to_string().starts_with(expected), "{faults}");
}

#[test]
fn a_shape_that_is_wrong_is_told_for_every_section() {
    let text = r#"
    tokn = "x"
    zone = "UTC"
    [discrd]
    guilds = [1]
    [discord]
    guild = [1]
    [limits]
    running = "many"
    [agent]
    confine = "sometimes"
    [store]
    running = 4
    [[provider.price]]
    family = "haiku"
    [observe]
    port = 4
    [[project]]
    slug = "a"
    [[project]]
    slug = 4
    "#;
    insta::assert_snapshot!(faults(text), @r#"
    discrd is no section: do you mean [discord]?
    tokn is no section: there are discord, store, sandbox, agent, provider, limits, time, observe, project
    zone stands outside of its section: move it under [time]
    discord.guild is no key: do you mean guilds?
    store.running is no key of this section: it belongs under [limits]
    agent.confine must be "required" or "off", not "sometimes"
    provider.price number 1, input is missing
    limits.running must be a whole number, not "many"
    observe.port is no key: [observe] has listen, log
    project number 2, slug must be a text, not 4
    "#);
}

#[test]
fn values_that_make_no_sense_are_told_together() {
    let text = r#"
    [discord]
    token = "A B"
    api_url = "ftp://discord.com"
    guilds = [7]
    owners = [8]
    [sandbox]
    backend = "open-terminal"
    url = "http://me:pass@host"
    workdir = "~/chats"
    keep_days = 0
    drop_dir = "drop"
    [agent]
    command = ""
    models = []
    max_turns = 0
    deny_read = ["secrets"]
    shared_skills = ["/no/such/place"]
    [agent.env]
    ANTHROPIC_BASE_URL = "x"
    "2x" = "y"
    [provider]
    meter_listen = "localhost"
    [[provider.price]]
    family = "haiku"
    input = -1
    output = nan
    cache_write = 1
    cache_read = 0
    [limits]
    budget_usd = -5
    turn_usd = 0
    queue_depth = 0
    [time]
    zone = "Mars"
    [observe]
    listen = "9180"
    "#;
    insta::assert_snapshot!(faults(text), @r#"
    discord.api_url must be an address that begins with http:// or https://, without user, password or query
    discord.token must be one word of plain letters, digits and signs: it is empty, or holds spaces or line breaks
    agent.models must name at least one model: the first is the default
    time.zone must be a time zone such as "Europe/Berlin" or "UTC", not "Mars"
    limits.queue_depth must be at least 1
    limits.budget_usd must be 0 or more dollars, not -5
    limits.turn_usd must be more than 0: it is what one turn may cost
    agent.command must name the agent's program, such as "claude"
    agent.max_turns must be at least 1
    agent.deny_read holds "secrets": a rule begins with ~/ (the account's home) or // (the root)
    agent.env.2x must be a variable's name: letters, digits and _
    agent.env.ANTHROPIC_BASE_URL is set by the bot itself: remove it
    agent.shared_skills names /no/such/place, which is no directory on this machine
    sandbox.workdir must begin with ~/ or / and hold {chat}, without ..: each chat has a directory of its own
    sandbox.drop_dir must be an absolute path in the sandbox, not "drop"
    sandbox.keep_days must be at least 1
    sandbox.url must be an address that begins with http:// or https://, without user, password or query
    sandbox.api_key is missing: give the open-terminal server's key, or api_key_file with the path of a file that holds it, here or as INNKEEPER_SANDBOX__API_KEY
    provider.meter_listen must be an address and a port such as "127.0.0.1:9180", not "localhost"
    provider.price number 1, input must be 0 or more dollars, not -1
    provider.price number 1, output must be 0 or more dollars, not NaN
    observe.listen must be an address and a port such as "127.0.0.1:9180", not "9180"
    "#);
}

#[test]
fn amounts_and_texts_that_look_right_and_cannot_be_meant_are_told() {
    let text = least_and(
        r#"
    [store]
    path = " "
    [agent]
    command = "cla\u0000ude"
    models = ["son\u0000net"]
    tools = ["Ba\u0007sh"]
    deny_read = ["~/\u0000"]
    system_prompt = "be\u0000brief"
    [agent.env]
    LANG = "C\u0000"
    [limits]
    budget_usd = 1e308
    turn_usd = 0.0000001
    [[provider.price]]
    family = "haiku"
    input = 1e308
    output = 1
    cache_write = 1
    cache_read = 0
    [[project]]
    slug = "one"
    title = "One\u0000"
    system_prompt = "\u0000"
    budget_usd = 0.0000001
    "#,
    );
    insta::assert_snapshot!(faults(&text), @r#"
    project number 1, title holds a NUL character
    project number 1, system_prompt holds a NUL character
    project number 1, budget_usd is less than a millionth of a dollar, which counts as nothing
    store.path must name a directory: the bot keeps everything there
    agent.models holds "son\0net": names are not empty and have no spaces, commas or control characters
    limits.budget_usd must be at most 1000000000 dollars, not 1e308
    limits.turn_usd is less than a millionth of a dollar, which counts as nothing
    agent.command holds a NUL character
    agent.system_prompt holds a NUL character
    agent.tools holds "Ba\u{7}sh": names are not empty and have no spaces, commas or control characters
    agent.deny_read holds a NUL character
    agent.env.LANG holds a NUL character
    provider.price number 1, input must be at most 1000000000 dollars, not 1e308
    "#);
    let most = settings(&least_and(
        "[limits]\nturn_usd = 0.000001\nbudget_usd = 1000000000",
    ));
    assert_eq!(most.rules.limits.turn, Usd(1));
    assert_eq!(most.rules.limits.budget, Usd(1_000_000_000_000_000));
}

#[test]
fn the_store_alone_is_held_to_its_path() {
    for path in ["", "  ", "a\\u0000b"] {
        let text = format!("[store]\npath = \"{path}\"\n");
        let faults = read_with(&text, &[]).unwrap().store_path().unwrap_err();
        assert_eq!(faults.0[0].key, "store.path", "{path:?}");
    }
    let path = read_with("", &[]).unwrap().store_path().unwrap();
    assert_eq!(path, PathBuf::from("data/store"));
}

#[test]
fn a_project_is_held_to_its_workspace_and_to_its_neighbours() {
    let text = least_and(
        r#"
    [store]
    path = "/srv/bot/store"
    [[project]]
    slug = "A b"
    [[project]]
    slug = "one"
    workspace = "in-place"
    path = "/srv/one"
    channels = [5]
    [[project]]
    slug = "one"
    workspace = "in-place"
    path = "/srv/one/inner"
    channels = ["5"]
    [[project]]
    slug = "root"
    workspace = "in-place"
    path = "/"
    [[project]]
    slug = "home"
    workspace = "in-place"
    path = "/home/ada"
    [[project]]
    slug = "bot"
    workspace = "in-place"
    path = "/srv/bot"
    [[project]]
    slug = "nowhere"
    workspace = "in-place"
    [[project]]
    slug = "bare"
    workspace = "clone"
    [[project]]
    slug = "scratch"
    path = "/srv/scratch"
    account = "Way-too-long"
    budget_usd = -1
    allowed_domains = ["a b"]
    ship_env_file = "/no/such/file"
    "#,
    );
    insta::assert_snapshot!(faults(&text), @r#"
    project number 1, slug must be 1 to 32 of a-z, 0-9 and -, beginning with a letter or digit, not "A b"
    project number 3, slug names "one" a second time
    project number 3, path overlaps the path of project "one"
    project number 3, channels holds 5, which already belongs to project "one"
    project number 4, path is the root of the machine, which is never a project
    project number 4, path overlaps the path of project "one"
    project number 4, path overlaps the path of project "one"
    project number 5, path is a home directory: name a directory inside of it
    project number 5, path overlaps the path of project "root"
    project number 6, path holds the bot's own configuration or store, or lies in the store: the bot is never a project
    project number 6, path overlaps the path of project "root"
    project number 7, workspace is "in-place": give path, the project's directory in the sandbox, and no repo
    project number 8, workspace is "clone": give repo, an address or path that git can clone, without a password in it (the sandbox account's own git can hold one), and no path
    project number 9, workspace is "scratch", an empty directory for each chat: give neither path nor repo, or choose "in-place" or "clone"
    project number 9, budget_usd must be 0 or more dollars, not -1
    project number 9, account must be 1 to 8 of a-z and 0-9, a letter first, not "Way-too-long"
    project number 9, allowed_domains holds "a b": names are not empty and have no spaces, commas or control characters
    project number 9, ship_env_file names /no/such/file, which is no file that the bot can read on this machine
    "#);
}

#[test]
fn a_project_that_holds_the_configuration_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bot/innkeeper.toml");
    fs::create_dir(folder.path().join("bot")).unwrap();
    let project = format!(
        "[[project]]\nslug = \"a\"\nworkspace = \"in-place\"\npath = {:?}",
        folder.path()
    );
    fs::write(&file, least_and(&project)).unwrap();
    let sources = Sources {
        file,
        ..Sources::default()
    };
    let faults = Config::read(&sources).unwrap().settings().unwrap_err();
    assert!(
        faults.to_string().contains("the bot is never a project"),
        "{faults}"
    );
}

#[test]
fn projects_become_a_catalogue_with_defaults_by_workspace() {
    let settings = settings(&least_and(
        r#"
    [[project]]
    slug = "a"
    [[project]]
    slug = "b"
    workspace = "in-place"
    path = "/srv//b/"
    [[project]]
    slug = "c"
    workspace = "clone"
    repo = "https://example.org/c.git"
    collect = "outbox"
    budget_usd = 2.5
    "#,
    ));
    let [a, b, c] = settings.catalogue.0.as_slice() else {
        panic!("{:?}", settings.catalogue);
    };
    assert_eq!((a.title.as_str(), a.collect), ("a", Collect::All));
    assert_eq!(
        b.workspace,
        Workspace::InPlace {
            path: "/srv/b".to_owned()
        }
    );
    assert_eq!(b.collect, Collect::New);
    assert_eq!(
        (c.collect, c.budget),
        (Collect::Outbox, Some(Usd(2_500_000)))
    );
}

#[test]
fn a_fault_names_the_variable_that_it_came_from() {
    let cases = [
        (
            "INNKEEPER_LIMITS__RUNNING",
            "x",
            "INNKEEPER_LIMITS__RUNNING: limits.running must be a whole number, not \"x\"",
        ),
        (
            "INNKEEPER_LIMITS__RUNING",
            "1",
            "INNKEEPER_LIMITS__RUNING: limits.runing is no key: do you mean running?",
        ),
        (
            "INNKEEPER_LIMIT__RUNNING",
            "1",
            "INNKEEPER_LIMIT__RUNNING: limit is no section: do you mean [limits]?",
        ),
        (
            "INNKEEPER_PROJECT__SLUG",
            "a",
            "INNKEEPER_PROJECT: project must be a list of tables in the file, each begun by [[project]], not a table",
        ),
        (
            "INNKEEPER_TIME__ZONE",
            "Mars",
            "INNKEEPER_TIME__ZONE: time.zone must be a time zone such as \"Europe/Berlin\" or \"UTC\", not \"Mars\"",
        ),
    ];
    for (name, value, expected) in cases {
        let faults = settings_with(LEAST, &[(name, value)]).unwrap_err();
        assert_eq!(faults.to_string(), expected);
    }
}

#[test]
fn a_variable_with_too_few_underscores_is_not_overlooked() {
    let slip = [("INNKEEPER_SANDBOX_API_KEY_FILE", "x")];
    insta::assert_snapshot!(settings_with(LEAST, &slip).unwrap_err(), @"INNKEEPER_SANDBOX_API_KEY_FILE: sandbox.api_key_file is not given by this: write INNKEEPER_SANDBOX__API_KEY_FILE");
    assert!(settings_with(LEAST, &[("INNKEEPER_OPEN_TERMINAL", "x")]).is_ok());
}

#[test]
fn the_readme_shows_a_configuration_without_faults() {
    let readme = include_str!("../../../README.md");
    let (_, after) = readme.split_once("```toml\n").unwrap();
    let (toml, _) = after.split_once("```").unwrap();
    let secret_file = regex::Regex::new(r"(?m)^(\w+)_file = .*$").unwrap();
    let settings = settings(&secret_file.replace_all(toml, "$1 = \"x\""));
    assert_eq!(settings.catalogue.0.len(), 1);
}

#[test]
fn a_fault_names_the_file_that_it_came_from() {
    let faults = settings_with(&least_and("[time]\nzone = \"Mars\""), &[]).unwrap_err();
    assert!(faults.0[0].origin.ends_with("/innkeeper.toml"), "{faults}");
}

#[test]
fn a_named_file_that_is_missing_is_a_fault() {
    let sources = Sources {
        file: PathBuf::from("/no/such/innkeeper.toml"),
        named: true,
        ..Sources::default()
    };
    let faults = Config::read(&sources).unwrap_err();
    assert_eq!(
        faults.to_string(),
        "/no/such/innkeeper.toml: does not exist or is no file"
    );
}

#[test]
fn text_that_is_no_toml_is_told_by_its_place_and_never_quoted() {
    let faults = read_with("[discord]\ntoken = \"hush-hush\nguilds = [1]\n", &[]).unwrap_err();
    let text = faults.to_string();
    assert!(text.contains("line 2"), "{text}");
    assert!(!text.contains("hush"), "{text}");
}

#[test]
fn secrets_come_from_their_file_without_the_line_break() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "A.B.C\r\n").unwrap();
    let text = LEAST.replace("token = \"A.B.C\"", &format!("token_file = {file:?}"));
    assert_eq!(settings(&text).discord.token.expose_secret(), "A.B.C");
    assert_eq!(
        read_with(&text, &[])
            .unwrap()
            .token()
            .unwrap()
            .expose_secret(),
        "A.B.C"
    );
}

#[test]
fn a_secret_given_twice_or_in_an_unreadable_file_is_a_fault() {
    let twice = LEAST.replace("token =", "token_file = \"x\"\ntoken =");
    insta::assert_snapshot!(faults(&twice), @"discord.token and discord.token_file are both given: remove one of them");
    let away = LEAST.replace("token = \"A.B.C\"", "token_file = \"/no/such/token\"");
    insta::assert_snapshot!(faults(&away), @"discord.token_file names /no/such/token, which does not exist: write the secret into /no/such/token");
}

#[test]
fn a_slip_in_one_section_does_not_hide_what_is_wrong_in_others() {
    let text = LEAST.replace("guilds", "gilds") + "[[project]]\nslug = \"Site!\"\n";
    insta::assert_snapshot!(faults(&text), @r#"
    discord.gilds is no key: do you mean guilds?
    project number 1, slug must be 1 to 32 of a-z, 0-9 and -, beginning with a letter or digit, not "Site!"
    "#);
    let unsure = LEAST.replace("backend", "bckend")
        + "[[project]]\nslug = \"a\"\nworkspace = \"in-place\"\npath = \"/home/ada\"\n";
    insta::assert_snapshot!(faults(&unsure), @"sandbox.bckend is no key: do you mean backend?");
}

#[test]
fn where_secrets_are_given_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "A.B.C").unwrap();
    let text = LEAST.replace("token = \"A.B.C\"", &format!("token_file = {file:?}"));
    let by_file = settings(&text);
    let expected = format!("{} (discord.token_file)", file.display());
    assert_eq!(by_file.places.token, expected);
    assert_eq!(by_file.secret_files, [file]);
    let by_key = settings(LEAST);
    assert_eq!(by_key.places.token, "discord.token");
    assert!(by_key.secret_files[0].ends_with("innkeeper.toml"));
}

#[test]
fn a_subscription_token_wins_over_the_key() {
    let key = settings(&least_and("[provider]\napi_key = \"k\""));
    assert!(matches!(
        key.provider.credential,
        Some(Credential::ApiKey(_))
    ));
    let both = settings(&least_and(
        "[provider]\napi_key = \"k\"\noauth_token = \"o\"",
    ));
    assert!(matches!(
        both.provider.credential,
        Some(Credential::OauthToken(_))
    ));
}

#[test]
fn a_subscription_token_needs_confinement() {
    let open = least_and("[provider]\noauth_token = \"o\"\n[agent]\nconfine = \"off\"");
    insta::assert_snapshot!(faults(&open), @r#"provider.oauth_token cannot be used with agent.confine = "off": every command of the agent could read the token"#);
}

#[test]
fn no_secret_shows_in_debug_or_in_a_fault() {
    let text = r#"
    [discord]
    token = "hush-1"
    guilds = [7]
    owners = [8]
    [sandbox]
    backend = "open-terminal"
    url = "http://h"
    api_key = "hush-2"
    [provider]
    oauth_token = "hush-3"
    api_key = "hush-4"
    [agent.env]
    KEY = "still-5"
    "#;
    let config = read_with(text, &[]).unwrap();
    let settings = config.settings().unwrap();
    assert_eq!(settings.secrets().len(), 3);
    let mut shown = format!("{config:?}{settings:?}");
    assert!(!shown.contains("hush"), "{shown}");
    shown.clear();
    for wrong in [
        text.replace("token = \"hush-1\"", "token = [\"hush-1\"]"),
        text.replace("api_key = \"hush-2\"", "api_key = 4242"),
        text.replace("\"still-5\"", "[\"still-5\"]"),
        text.replace("hush-1", "hush 1"),
        text.replace(
            "token = \"hush-1\"",
            "token = \"hush-1\"\ntoken_file = \"x\"",
        ),
    ] {
        shown.push_str(&settings_with(&wrong, &[]).unwrap_err().to_string());
    }
    for secret in ["hush", "4242", "still"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
