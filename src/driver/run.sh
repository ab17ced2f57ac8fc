# Runs one turn, and depends on nobody: bot, sandbox server and connection may all die meanwhile.
#
# Started in the turn's directory with the lock of the run as descriptor 9, the launch (shell text that ends in `exec`)
# on standard input, INNKEEPER_RUN in the environment, and the ceiling in seconds as $1. Whoever wants to know whether
# the run lives asks for the lock: pids mean nothing in another namespace, and the kernel gives a lock back whatever
# happens to its holder. So nothing that the agent starts may hold it.

exec 8<&0 </dev/null
ceiling=$1
set -- $(sed 's/.*) //' /proc/$$/stat)
printf '%s %s\n' "$$" "${20}" >pid

# What the agent is told: whole lines `id TAB json`, without the id, until a line `end`.
rm -f feed
mkfifo -m 600 feed || exit 1
tab=$(printf '\t')
{
  tail -n +1 -s 0.2 -f in.jsonl | sed -u -n -e '/^end$/q' -e "s/^[^$tab]*$tab\({.*}\)\$/\1/p" >feed
} 8<&- 9>&- 2>/dev/null &

# The launch is read by the very process that becomes the agent, so that what is secret in it is in no file, on no
# command line and in no environment but the agent's.
timeout -s INT -k 10 "$ceiling" sh -c '
  echo $$ >cli
  rm -f feed
  launch=$(cat <&8)
  exec 8<&-
  eval "$launch"
' <feed >>out.jsonl 2>>err.log 9>&-
code=$?
exec 8<&-

# However the agent ended: nothing of the run stays. In a namespace of our own that is everything we can see, else
# whatever carries the mark; looked for until two looks find nothing, because a process that is just becoming another
# program shows no environment for a moment.
round=0 quiet=0
[ "${INNKEEPER_OWN_NAMESPACE-}" != yes ] || { kill -s KILL -- -1 2>/dev/null; quiet=2; }
while [ $round -lt 50 ] && [ $quiet -lt 2 ]; do
  left=
  for f in $(grep -lszxF -- "INNKEEPER_RUN=$INNKEEPER_RUN" /proc/[0-9]*/environ); do
    p=${f#/proc/}; p=${p%/environ}
    [ "$p" = $$ ] || ! kill -s KILL "$p" 2>/dev/null || left=yes
  done
  if [ -n "$left" ]; then quiet=0; else quiet=$((quiet + 1)); fi
  round=$((round + 1)); [ $quiet -ge 2 ] || sleep 0.05
done

printf '%s\n' "$code" >exit.new && mv -f exit.new exit
