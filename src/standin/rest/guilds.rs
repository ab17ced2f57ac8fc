//! `/guilds/{id}…`: a server, its members, channels and roles.

use serde_json::{Value, json};

use super::{Answer, Call, channels, number, ok, only, snowflake, switched_on};
use crate::standin::clock::Id;
use crate::standin::refused;
use crate::standin::shared::State;
use crate::standin::world::{Channel, Guild};

/// Answers requests about a server.
pub(super) fn answer(state: &State, call: &Call, guild: &str, rest: &[&str]) -> Answer {
    let bot = state.world.bot.id;
    let guild = state
        .world
        .guilds
        .get(&snowflake(guild)?)
        .filter(|guild| guild.members.contains_key(&bot));
    let guild = guild.ok_or(refused::UNKNOWN_GUILD)?;
    only("GET", call, || match rest {
        [] => ok(show(state, call, guild)),
        ["members"] => list_members(state, call, guild),
        ["members", user] => {
            let user = if *user == "@me" {
                bot
            } else {
                snowflake(user)?
            };
            state
                .world
                .show_member(guild, user)
                .ok_or(refused::UNKNOWN_MEMBER.into())
                .and_then(ok)
        }
        ["channels"] => {
            let listed = state
                .world
                .channels
                .values()
                .filter(|place| place.guild == Some(guild.id) && place.thread.is_none());
            ok(listed
                .map(|place| state.world.show_channel(place))
                .collect())
        }
        ["roles"] => ok(json!(guild.show_roles())),
        ["threads", "active"] => {
            let active =
                |place: &&Channel| place.thread.as_ref().is_some_and(|thread| !thread.archived);
            let listed = state
                .world
                .channels
                .values()
                .filter(|place| place.guild == Some(guild.id))
                .filter(active);
            let listed: Vec<&Channel> = listed
                .filter(|place| state.world.sees(bot, place.id))
                .collect();
            ok(channels::show_threads(state, &listed, false))
        }
        _ => Err(refused::NOT_FOUND.into()),
    })
}

fn show(state: &State, call: &Call, guild: &Guild) -> Value {
    let mut shown = guild.show();
    if switched_on(call, "with_counts") {
        shown["approximate_member_count"] = json!(guild.members.len());
        shown["approximate_presence_count"] = json!(state.gateway.connections());
    }
    shown
}

/// Returns a server as `GET /users/@me/guilds` lists it.
pub(super) fn show_short(guild: &Guild, user: Id) -> Value {
    json!({
        "id": guild.id.to_string(), "name": guild.name, "icon": null, "banner": null, "owner": guild.owner == user,
        "permissions": guild.permissions(user).to_string(), "features": [],
    })
}

/// Lists members; only an application with the members' intent may.
fn list_members(state: &State, call: &Call, guild: &Guild) -> Answer {
    if state.world.bot.privileged & crate::standin::world::intent::GUILD_MEMBERS == 0 {
        return Err(refused::MISSING_ACCESS.into());
    }
    let limit = number(call, "limit", 1, 1000, 1)?;
    let after = call
        .query
        .get("after")
        .map(|id| snowflake(id))
        .transpose()?
        .unwrap_or(0);
    let listed = guild
        .members
        .keys()
        .filter(|user| **user > after)
        .take(limit);
    ok(listed
        .filter_map(|user| state.world.show_member(guild, *user))
        .collect())
}
