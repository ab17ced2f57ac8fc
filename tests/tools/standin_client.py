#!/usr/bin/env python3
"""A bot in discord.py that is run against the stand-in: logs in, answers a mention in a thread, answers a command.

    standin_client.py URL TOKEN

URL is the stand-in's address without a path. Prints one line for each thing that worked and ends after the last.
"""
import logging
import sys

try:
    import discord
    from discord import app_commands
    import yarl
except ImportError as problem:
    sys.exit(f"discord.py is missing ({problem}): install the package discord.py into the tests' Python environment")


class Bot(discord.Client):
    def __init__(self):
        intents = discord.Intents(guilds=True, guild_messages=True, message_content=True)
        super().__init__(intents=intents)
        self.tree = app_commands.CommandTree(self)

    async def setup_hook(self):
        @self.tree.command(name="echo", description="Says it again")
        async def echo(interaction: discord.Interaction, text: str):
            await interaction.response.send_message(text, ephemeral=True)
            print("answered the command", flush=True)
            await self.close()

        await self.tree.sync()
        print("registered", flush=True)

    async def on_ready(self):
        print("ready", flush=True)

    async def on_message(self, message):
        if message.author.bot or self.user not in message.mentions:
            return
        reply = await message.reply("hello", mention_author=False)
        print("replied", flush=True)
        thread = await message.create_thread(name="a talk")
        assert thread.id == message.id
        sent = await thread.send("in here", file=discord.File(__file__, filename="me.txt"))
        assert sent.attachments[0].filename == "me.txt"
        await reply.edit(content="hello again")
        await message.add_reaction("👀")
        assert len([found async for found in thread.history()]) == 2
        print("opened a thread", flush=True)


def main():
    url, token = sys.argv[1:]
    discord.http.Route.BASE = f"{url}/api/v10"
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(url.replace("http", "ws", 1) + "/gateway")
    Bot().run(token, log_level=logging.ERROR)


if __name__ == "__main__":
    main()
