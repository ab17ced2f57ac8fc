//! World files: reading one, and the world of the demo.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{Bot, Channel, Guild, Id, Kind, Member, Overwrite, Role, User, World, intent};
use crate::standin::clock::{Clock, made_at_ms};
use crate::standin::permissions as may;

const MIB: usize = 1024 * 1024;

/// What is wrong with a world file: the field and what is expected there.
#[derive(Debug, thiserror::Error)]
#[error("unusable world file: {0}")]
pub struct WorldError(String);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorldFile {
    bot: BotFile,
    guilds: Vec<GuildFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BotFile {
    name: String,
    id: Option<String>,
    token: Option<String>,
    #[serde(default = "yes")]
    message_content: bool,
    #[serde(default)]
    guild_members: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GuildFile {
    name: String,
    id: Option<String>,
    owner: String,
    #[serde(default)]
    premium_tier: u8,
    upload_limit: Option<usize>,
    /// What everybody may do; Discord's defaults where absent.
    everyone: Option<Vec<String>>,
    bot_permissions: Option<Vec<String>>,
    #[serde(default = "yes")]
    has_bot: bool,
    #[serde(default)]
    roles: Vec<RoleFile>,
    members: Vec<MemberFile>,
    channels: Vec<ChannelFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleFile {
    name: String,
    id: Option<String>,
    #[serde(default)]
    permissions: Vec<String>,
    #[serde(default)]
    mentionable: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberFile {
    name: String,
    id: Option<String>,
    nick: Option<String>,
    #[serde(default)]
    roles: Vec<String>,
    #[serde(default)]
    bot: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelFile {
    name: String,
    id: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    overwrites: Vec<OverwriteFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverwriteFile {
    role: Option<String>,
    member: Option<String>,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
}

fn yes() -> bool {
    true
}

/// The demo's world in the form of a world file, so that there is one way to build a world. The ids
/// are fixed.
const DEMO: &str = r#"{
  "bot": { "name": "innkeeper", "id": "1213398211451555840" },
  "guilds": [{
    "name": "Demo", "id": "1213402987654217728", "owner": "olga",
    "members": [
      { "name": "olga", "id": "302050872383242240" },
      { "name": "ada", "id": "410537337646743552" },
      { "name": "ben", "id": "523846230284976128" },
      { "name": "cleo", "id": "691207834510262272" }
    ],
    "channels": [
      { "name": "general", "id": "1213402988564381696" },
      { "name": "data", "id": "1213402991370371072" }
    ]
  }]
}"#;

/// Returns the demo's world.
pub(super) fn demo() -> World {
    // The text above is tested to be a usable world file; the empty world stands only for the
    // compiler.
    parse(DEMO).unwrap_or_else(|_| {
        World::empty(Bot {
            id: 1,
            token: String::new(),
            privileged: 0,
        })
    })
}

/// Reads a world file.
pub(super) fn parse(text: &str) -> Result<World, WorldError> {
    let file: WorldFile =
        serde_json::from_str(text).map_err(|error| WorldError(error.to_string()))?;
    if file.guilds.is_empty() {
        return Err(WorldError(
            "`guilds` is empty, at least one server is expected".to_owned(),
        ));
    }
    let mut ids = Ids {
        next: 1_214_000_000_000_000_000,
    };
    let bot = read_bot(&file.bot, &mut ids)?;
    let mut world = World::empty(bot);
    world.users.insert(
        world.bot.id,
        User {
            id: world.bot.id,
            name: file.bot.name.clone(),
            bot: true,
        },
    );
    for (index, guild) in file.guilds.iter().enumerate() {
        add_guild(&mut world, guild, &format!("guilds[{index}]"), &mut ids)?;
    }
    Ok(world)
}

/// Gives ids to what a world file leaves without.
struct Ids {
    next: Id,
}

impl Ids {
    fn read(&mut self, text: Option<&str>, field: &str) -> Result<Id, WorldError> {
        let Some(text) = text else {
            // One step of 2^22 is one millisecond, so that the ids also differ in their time.
            self.next += 1 << 22;
            return Ok(self.next);
        };
        let id = text.parse().ok().filter(|id| *id > 0);
        id.ok_or_else(|| {
            WorldError(format!(
                "`{field}` is {text:?}, a positive decimal number in quotes is expected"
            ))
        })
    }
}

fn read_bot(file: &BotFile, ids: &mut Ids) -> Result<Bot, WorldError> {
    let id = ids.read(file.id.as_deref(), "bot.id")?;
    let token = file.token.clone().unwrap_or_else(|| token_of(id));
    if token.split('.').count() != 3 {
        return Err(WorldError(
            "`bot.token` must have three parts joined by dots".to_owned(),
        ));
    }
    let content = if file.message_content {
        intent::MESSAGE_CONTENT
    } else {
        0
    };
    let members = if file.guild_members {
        intent::GUILD_MEMBERS
    } else {
        0
    };
    Ok(Bot {
        id,
        token,
        privileged: content | members,
    })
}

/// Makes a token of the real form: the bot's id, a moment and a secret, each in base64.
fn token_of(bot: Id) -> String {
    let secret = URL_SAFE_NO_PAD.encode(Sha256::digest(bot.to_be_bytes()));
    let secret: String = secret.chars().take(38).collect();
    format!(
        "{}.GkT3Yw.{secret}",
        URL_SAFE_NO_PAD.encode(bot.to_string())
    )
}

fn add_guild(
    world: &mut World,
    file: &GuildFile,
    at: &str,
    ids: &mut Ids,
) -> Result<(), WorldError> {
    let id = ids.read(file.id.as_deref(), &format!("{at}.id"))?;
    if file.premium_tier > 3 {
        return Err(WorldError(format!(
            "`{at}.premium_tier` is {}, 0 to 3 is expected",
            file.premium_tier
        )));
    }
    let mut guild = Guild {
        id,
        name: file.name.clone(),
        owner: 0,
        premium_tier: file.premium_tier,
        upload_limit: file.upload_limit.unwrap_or(upload_limit(file.premium_tier)),
        roles: Vec::new(),
        members: BTreeMap::new(),
    };
    add_roles(world, &mut guild, file, at, ids)?;
    add_members(world, &mut guild, file, at, ids)?;
    let owner = world
        .member_id(&file.owner)
        .filter(|owner| guild.members.contains_key(owner));
    guild.owner = owner.ok_or_else(|| {
        WorldError(format!(
            "`{at}.owner` is {:?}, the name of one of the server's members is expected",
            file.owner
        ))
    })?;
    for (index, channel) in file.channels.iter().enumerate() {
        add_channel(
            world,
            &guild,
            channel,
            (index, &format!("{at}.channels[{index}]")),
            ids,
        )?;
    }
    world.guilds.insert(id, guild);
    Ok(())
}

/// Returns the bytes that a file may have on a server of this boost level.
fn upload_limit(premium_tier: u8) -> usize {
    match premium_tier {
        2 => 50 * MIB,
        3 => 100 * MIB,
        _ => 10 * MIB,
    }
}

fn add_roles(
    world: &World,
    guild: &mut Guild,
    file: &GuildFile,
    at: &str,
    ids: &mut Ids,
) -> Result<(), WorldError> {
    let everyone = match &file.everyone {
        Some(names) => permissions(names, &format!("{at}.everyone"))?,
        None => may::EVERYONE,
    };
    let plain = |id, name: &str, permissions| Role {
        id,
        name: name.to_owned(),
        permissions,
        mentionable: false,
        bot: None,
    };
    guild.roles.push(plain(guild.id, "@everyone", everyone));
    for (index, role) in file.roles.iter().enumerate() {
        let field = format!("{at}.roles[{index}]");
        let id = ids.read(role.id.as_deref(), &format!("{field}.id"))?;
        let permissions = permissions(&role.permissions, &format!("{field}.permissions"))?;
        guild.roles.push(Role {
            mentionable: role.mentionable,
            ..plain(id, &role.name, permissions)
        });
    }
    if file.has_bot {
        let granted = match &file.bot_permissions {
            Some(names) => permissions(names, &format!("{at}.bot_permissions"))?,
            None => may::BOT,
        };
        let id = ids.read(None, "")?;
        let name = world.name_of(world.bot.id);
        guild.roles.push(Role {
            bot: Some(world.bot.id),
            ..plain(id, &name, granted)
        });
        let joined_ms = made_at_ms(guild.id);
        guild.members.insert(
            world.bot.id,
            Member {
                nick: None,
                roles: vec![id],
                joined_ms,
            },
        );
    }
    Ok(())
}

fn permissions(names: &[String], field: &str) -> Result<u64, WorldError> {
    names.iter().try_fold(0, |sum, name| {
        match may::NAMES.iter().find(|(known, _)| known == name) {
            Some((_, bit)) => Ok(sum | bit),
            None => {
                let known: Vec<&str> = may::NAMES.iter().map(|(known, _)| *known).collect();
                Err(WorldError(format!(
                    "`{field}` has {name:?}, expected are names out of {}",
                    known.join(", ")
                )))
            }
        }
    })
}

fn add_members(
    world: &mut World,
    guild: &mut Guild,
    file: &GuildFile,
    at: &str,
    ids: &mut Ids,
) -> Result<(), WorldError> {
    for (index, member) in file.members.iter().enumerate() {
        let field = format!("{at}.members[{index}]");
        // The same name on two servers is the same person.
        let id = match (world.member_id(&member.name), &member.id) {
            (Some(id), None) => id,
            _ => ids.read(member.id.as_deref(), &format!("{field}.id"))?,
        };
        let roles = member.roles.iter().map(|name| {
            let role = guild.roles.iter().find(|role| role.name == *name);
            role.map(|role| role.id).ok_or_else(|| {
                WorldError(format!("`{field}.roles` has {name:?}, the name of one of the server's roles is expected"))
            })
        });
        let roles = roles.collect::<Result<Vec<Id>, WorldError>>()?;
        world.users.entry(id).or_insert_with(|| User {
            id,
            name: member.name.clone(),
            bot: member.bot,
        });
        guild.members.insert(
            id,
            Member {
                nick: member.nick.clone(),
                roles,
                joined_ms: made_at_ms(guild.id),
            },
        );
    }
    Ok(())
}

fn add_channel(
    world: &mut World,
    guild: &Guild,
    file: &ChannelFile,
    (position, at): (usize, &str),
    ids: &mut Ids,
) -> Result<(), WorldError> {
    const KINDS: [Kind; 5] = [
        Kind::Text,
        Kind::Announcement,
        Kind::Forum,
        Kind::Voice,
        Kind::Category,
    ];
    let word = file.kind.as_deref().unwrap_or("text");
    let kind = KINDS
        .into_iter()
        .find(|kind| kind.word() == word)
        .ok_or_else(|| {
            WorldError(format!(
                "`{at}.kind` is {word:?}, expected is text, announcement, forum, voice or category"
            ))
        })?;
    let overwrites = file
        .overwrites
        .iter()
        .enumerate()
        .map(|(index, overwrite)| {
            read_overwrite(
                world,
                guild,
                overwrite,
                &format!("{at}.overwrites[{index}]"),
            )
        });
    let overwrites = overwrites.collect::<Result<_, _>>()?;
    let id = ids.read(file.id.as_deref(), &format!("{at}.id"))?;
    let channel = Channel {
        position,
        overwrites,
        ..Channel::new(id, Some(guild.id), kind, &file.name)
    };
    world.channels.insert(id, channel);
    Ok(())
}

fn read_overwrite(
    world: &World,
    guild: &Guild,
    file: &OverwriteFile,
    at: &str,
) -> Result<Overwrite, WorldError> {
    let id = match (&file.role, &file.member) {
        (Some(role), None) => guild
            .roles
            .iter()
            .find(|each| each.name == *role)
            .map(|role| role.id),
        (None, Some(member)) => world
            .member_id(member)
            .filter(|id| guild.members.contains_key(id)),
        _ => None,
    };
    let id = id.ok_or_else(|| {
        WorldError(format!(
            "`{at}` needs either `role` or `member` with the name of one of the server"
        ))
    })?;
    Ok(Overwrite {
        id,
        for_member: file.member.is_some(),
        allow: permissions(&file.allow, &format!("{at}.allow"))?,
        deny: permissions(&file.deny, &format!("{at}.deny"))?,
    })
}

impl Channel {
    /// Returns an empty channel.
    pub(crate) fn new(id: Id, guild: Option<Id>, kind: Kind, name: &str) -> Channel {
        Channel {
            id,
            guild,
            kind,
            name: name.to_owned(),
            parent: None,
            position: 0,
            overwrites: Vec::new(),
            recipients: Vec::new(),
            messages: BTreeMap::new(),
            thread: None,
        }
    }
}

impl World {
    fn empty(bot: Bot) -> World {
        World {
            clock: Clock::default(),
            bot,
            users: BTreeMap::new(),
            guilds: BTreeMap::new(),
            channels: BTreeMap::new(),
            commands: Vec::new(),
            interactions: BTreeMap::new(),
            files: BTreeMap::new(),
            outbox: Vec::new(),
            base_url: String::new(),
            suggestion: serde_json::Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_world_has_its_people_and_channels_under_fixed_ids() {
        let world = World::demo();
        assert_eq!(world.guild_id(), 1_213_402_987_654_217_728);
        assert_eq!(world.channel_id("data"), Some(1_213_402_991_370_371_072));
        assert_eq!(world.member_id("ada"), Some(410_537_337_646_743_552));
        assert_eq!(
            world.guilds[&world.guild_id()].owner,
            world.member_id("olga").unwrap()
        );
        assert_eq!(
            world.guilds[&world.guild_id()].permissions(world.bot_id()) & may::BOT,
            may::BOT
        );
    }

    #[test]
    fn the_first_part_of_the_token_decodes_to_the_bots_id() {
        let world = World::demo();
        let first = world.bot_token().split('.').next().unwrap();
        assert_eq!(
            URL_SAFE_NO_PAD.decode(first).unwrap(),
            world.bot_id().to_string().into_bytes()
        );
    }

    #[test]
    fn a_bad_world_file_is_refused_with_the_name_of_the_field() {
        let cases = [
            (r#"{"bot":{"name":"b"}}"#, "guilds"),
            (r#"{"bot":{"name":"b"},"guilds":[]}"#, "`guilds` is empty"),
            (r#"{"bot":{"name":"b","colour":1},"guilds":[]}"#, "colour"),
            (
                r#"{"bot":{"name":"b","id":"x"},"guilds":[{"name":"G","owner":"o","members":[],"channels":[]}]}"#,
                "bot.id",
            ),
            (
                r#"{"bot":{"name":"b"},"guilds":[{"name":"G","owner":"o","members":[],"channels":[]}]}"#,
                "guilds[0].owner",
            ),
            (
                r#"{"bot":{"name":"b"},"guilds":[{"name":"G","owner":"o","members":[{"name":"o"}],
                    "channels":[{"name":"c","kind":"cellar"}]}]}"#,
                "guilds[0].channels[0].kind",
            ),
            (
                r#"{"bot":{"name":"b"},"guilds":[{"name":"G","owner":"o","members":[{"name":"o"}],"channels":[],
                    "roles":[{"name":"r","permissions":["FLY"]}]}]}"#,
                "guilds[0].roles[0].permissions",
            ),
        ];
        for (text, expected) in cases {
            let error = World::from_json(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{error} names {expected}");
        }
    }

    #[test]
    fn overwrites_of_a_channel_take_and_give_permissions() {
        let world = World::from_json(
            r#"{"bot":{"name":"b"},"guilds":[{"name":"G","owner":"o","members":[{"name":"o"},{"name":"m","roles":["r"]}],
                "roles":[{"name":"r"}],
                "channels":[{"name":"c","overwrites":[{"role":"@everyone","deny":["VIEW_CHANNEL"]},
                    {"role":"r","allow":["VIEW_CHANNEL"],"deny":["SEND_MESSAGES"]}]}]}]}"#,
        )
        .unwrap();
        let channel = world.channel_id("c").unwrap();
        let member = world.member_id("m").unwrap();
        assert!(!world.sees(world.bot_id(), channel));
        assert!(world.sees(member, channel));
        assert_eq!(world.permissions(member, channel) & may::SEND_MESSAGES, 0);
        assert_ne!(
            world.permissions(world.member_id("o").unwrap(), channel) & may::SEND_MESSAGES,
            0
        );
    }
}
