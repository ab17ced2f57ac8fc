//! What a person may do in a place: roles, overwrites and the rules of threads.

use super::clock::Id;
use super::world::{Guild, Kind, World};

/// Names each permission bit and lists them for the world file.
macro_rules! permissions {
    ($($name:ident = $bit:literal;)*) => {
        $(pub(crate) const $name: u64 = 1 << $bit;)*
        /// The permissions that a world file can name.
        pub(crate) const NAMES: &[(&str, u64)] = &[$((stringify!($name), $name)),*];
    };
}

permissions! {
    ADMINISTRATOR = 3;
    MANAGE_CHANNELS = 4;
    MANAGE_GUILD = 5;
    ADD_REACTIONS = 6;
    VIEW_CHANNEL = 10;
    SEND_MESSAGES = 11;
    MANAGE_MESSAGES = 13;
    EMBED_LINKS = 14;
    ATTACH_FILES = 15;
    READ_MESSAGE_HISTORY = 16;
    MENTION_EVERYONE = 17;
    USE_EXTERNAL_EMOJIS = 18;
    CHANGE_NICKNAME = 26;
    MANAGE_ROLES = 28;
    USE_APPLICATION_COMMANDS = 31;
    MANAGE_THREADS = 34;
    CREATE_PUBLIC_THREADS = 35;
    CREATE_PRIVATE_THREADS = 36;
    SEND_MESSAGES_IN_THREADS = 38;
    SEND_POLLS = 49;
}

/// Everything that this stand-in knows of.
pub(crate) const ALL: u64 = (1 << 50) - 1;

/// What Discord gives to everybody on a new server, as far as it matters here.
pub(crate) const EVERYONE: u64 = ADD_REACTIONS
    | VIEW_CHANNEL
    | SEND_MESSAGES
    | EMBED_LINKS
    | ATTACH_FILES
    | READ_MESSAGE_HISTORY
    | MENTION_EVERYONE
    | CHANGE_NICKNAME
    | USE_APPLICATION_COMMANDS
    | CREATE_PUBLIC_THREADS
    | CREATE_PRIVATE_THREADS
    | SEND_MESSAGES_IN_THREADS
    | SEND_POLLS;

/// What the bot asks for in its invitation.
pub(crate) const BOT: u64 = VIEW_CHANNEL
    | SEND_MESSAGES
    | SEND_MESSAGES_IN_THREADS
    | CREATE_PUBLIC_THREADS
    | ATTACH_FILES
    | EMBED_LINKS
    | READ_MESSAGE_HISTORY
    | ADD_REACTIONS;

impl Guild {
    /// Returns what a member may do before any channel is looked at; nothing for strangers.
    pub(crate) fn permissions(&self, user: Id) -> u64 {
        let Some(member) = self.members.get(&user) else {
            return 0;
        };
        if self.owner == user {
            return ALL;
        }
        let held = self
            .roles
            .iter()
            .filter(|role| role.id == self.id || member.roles.contains(&role.id));
        let granted = held.fold(0, |sum, role| sum | role.permissions);
        if granted & ADMINISTRATOR == 0 {
            granted
        } else {
            ALL
        }
    }
}

impl World {
    /// Returns what a user may do in a channel or thread; nothing if the place does not exist.
    pub(crate) fn permissions(&self, user: Id, channel: Id) -> u64 {
        let Some(place) = self.channels.get(&channel) else {
            return 0;
        };
        let Some(guild) = place.guild.and_then(|guild| self.guilds.get(&guild)) else {
            return if place.recipients.contains(&user) {
                ALL & !MANAGE_MESSAGES
            } else {
                0
            };
        };
        let base = guild.permissions(user);
        if base == ALL || base == 0 {
            return base;
        }
        // A thread has no overwrites of its own: its parent's hold.
        let source = match place.thread {
            Some(_) => place.parent.and_then(|parent| self.channels.get(&parent)),
            None => Some(place),
        };
        let mut granted = source.map_or(base, |source| {
            overwritten(base, guild, user, &source.overwrites)
        });
        if let Some(thread) = &place.thread
            && place.kind == Kind::PrivateThread
            && !thread.members.contains_key(&user)
            && granted & MANAGE_THREADS == 0
        {
            granted = 0;
        }
        if granted & VIEW_CHANNEL == 0 {
            0
        } else {
            granted
        }
    }

    /// Tells whether a user sees a channel or thread.
    pub(crate) fn sees(&self, user: Id, channel: Id) -> bool {
        self.permissions(user, channel) & VIEW_CHANNEL != 0
    }
}

/// Applies overwrites in Discord's order: everybody, then all roles together, then the member.
fn overwritten(base: u64, guild: &Guild, user: Id, overwrites: &[super::world::Overwrite]) -> u64 {
    let roles = guild
        .members
        .get(&user)
        .map(|member| member.roles.as_slice())
        .unwrap_or_default();
    let of = |wanted: &dyn Fn(Id) -> bool| {
        let chosen = overwrites.iter().filter(|each| wanted(each.id));
        chosen.fold((0, 0), |(allow, deny), each| {
            (allow | each.allow, deny | each.deny)
        })
    };
    [
        of(&|id| id == guild.id),
        of(&|id| roles.contains(&id)),
        of(&|id| id == user),
    ]
    .into_iter()
    .fold(base, |granted, (allow, deny)| granted & !deny | allow)
}
