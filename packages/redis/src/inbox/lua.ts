import { createHash } from 'node:crypto'
import type { Script } from '../scripts.ts'
import { commit } from './lua-commit.ts'

/*
 * The scripts of the inbox. What an event may do next is decided in TypeScript, by the rules that all inboxes share; a script
 * compares what was read and writes. Only `commit` knows more, because effects and mark are one step.
 *
 * They are sent by EVALSHA and not by FCALL: EVALSHA works from Redis 6.2 on and in every client here, needs no right to
 * load libraries, and two releases of onceward can share a server during a deployment.
 *
 * Values: `d<fingerprint> <ms> <result>` for a done event, or one line `<state><token> <revision>` and the record as JSON.
 * A lock is a key of its own that holds the token of its transaction, and expires when its owner no longer renews it.
 */

/** ARGV: how long a lock lives, ms; its token; for each event how its value must begin ('' if there must be none). KEYS: for each event its value and its lock. */
const begin = `
local ttl, token = ARGV[1], ARGV[2]
local answers, values, claimed = {}, {}, 0
for i = 1, #KEYS / 2 do
  local want, value, lock = ARGV[2 + i], redis.call('GET', KEYS[2 * i - 1]), redis.call('GET', KEYS[2 * i])
  values[i] = value or ''
  if lock and (want ~= '' or is_changing(lock)) then return { 'held' } end
  if want == '' then answers[i] = value and 0 or 1
  else answers[i] = value and (string.sub(value, 1, #want) == want and 1 or 2) or 0 end
  if answers[i] == 1 then claimed = claimed + 1 end
end
if claimed == 0 then return { 'none', whole(now), values } end
for i = 1, #KEYS / 2 do
  if answers[i] == 1 then redis.call('SET', KEYS[2 * i], token, 'PX', ttl) end
  if answers[i] == 2 then redis.call('SET', KEYS[2 * i], token .. UNCHANGED, 'PX', ttl) end
end
return { 'open', whole(now), answers }
`

/** ARGV: the new life of the locks, ms, 0 to give them up; their token. KEYS: locks. */
const locks = `
for i = 1, #KEYS do
  local lock = redis.call('GET', KEYS[i])
  if lock == ARGV[2] or lock == ARGV[2] .. UNCHANGED then
    if ARGV[1] == '0' then redis.call('DEL', KEYS[i]) else redis.call('PEXPIRE', KEYS[i], ARGV[1]) end
  end
end
return 1
`

/** KEYS: for each event its value and its lock. Answers the time, and for each its value ('' for none) and its lock: 0 none, 1 its owner changes it, 2 it does not. */
const read = `
local answers = {}
for i = 1, #KEYS / 2 do
  local lock = redis.call('GET', KEYS[2 * i])
  answers[i] = { redis.call('GET', KEYS[2 * i - 1]) or '', lock and (is_changing(lock) and 1 or 2) or 0 }
end
return { whole(now), answers }
`

/**
 * Writes values that nobody has changed since they were read. ARGV[1] 1: all or none. For each event: the first line that was
 * read ('' for none); the token of an own lock, '-' for none, '' to ignore locks; the new value ('' to delete it); its
 * life in ms (0: for ever); when it is due ('' if it is not); since when it is a dead letter ('' if it is not); its name in
 * both lists. KEYS: the lists of what is due and of dead letters; for each event its value and its lock.
 */
const swap = `
local STEP = 7
local answers, isAll, allFit = {}, ARGV[1] == '1', true
for i = 1, (#KEYS - 2) / 2 do
  local at, key, lock = 2 + (i - 1) * STEP, KEYS[1 + 2 * i], KEYS[2 + 2 * i]
  local value, owner = redis.call('GET', key), redis.call('GET', lock)
  local head = value and string.match(value, '^[^\\n]*') or ''
  local isFree = ARGV[at + 1] == '' or not owner or owner == ARGV[at + 1]
  answers[i] = not isFree and 2 or head == ARGV[at] and 1 or 0
  allFit = allFit and answers[i] == 1
end
if isAll and not allFit then return answers end
for i = 1, (#KEYS - 2) / 2 do
  local at, key = 2 + (i - 1) * STEP, KEYS[1 + 2 * i]
  if answers[i] == 1 then
    local name = ARGV[at + 6]
    if ARGV[at + 2] == '' then redis.call('DEL', key)
    elseif ARGV[at + 3] == '0' then redis.call('SET', key, ARGV[at + 2])
    else redis.call('SET', key, ARGV[at + 2], 'PX', ARGV[at + 3]) end
    for list = 1, 2 do
      local score = ARGV[at + 3 + list]
      if score == '' then redis.call('ZREM', KEYS[list], name) else redis.call('ZADD', KEYS[list], score, name) end
    end
  end
end
return answers
`

/** KEYS: a list. ARGV: the highest score ('now': that are due), how many, how many to skip. Answers the names in order. */
const list = `
local most = ARGV[1] == 'now' and whole(now) or ARGV[1]
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', most, 'LIMIT', ARGV[3], ARGV[2])
`

/** Takes names off a list. KEYS: the list. ARGV: names. */
const unlist = `
return redis.call('ZREM', KEYS[1], unpack(ARGV))
`

/** KEYS: keys of the program. Answers a digest of each value. */
const digest = `
local answers = {}
for i = 1, #KEYS do answers[i] = digest_of(KEYS[i]) end
return answers
`

/** Registers a consumer. KEYS: settings, consumers. ARGV: a random id and a secret for new settings, the consumer, its rule. */
const open = `
redis.call('HSETNX', KEYS[1], 'id', ARGV[1])
redis.call('HSETNX', KEYS[1], 'secret', ARGV[2])
local before = redis.call('HGET', KEYS[2], ARGV[3]) or ''
redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
local function info(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end
local json = redis.pcall('COMMAND', 'INFO', 'JSON.SET')
local hasJson = type(json) == 'table' and type(json[1]) == 'table' and 1 or 0
local text = info('server') .. info('memory') .. info('persistence') .. info('replication') .. info('cluster')
return { redis.call('HGET', KEYS[1], 'id'), redis.call('HGET', KEYS[1], 'secret'), before, hasJson, text }
`

/** KEYS: settings. Answers the id, and the id of the replication history. */
const identity = `
local text = redis.pcall('INFO', 'replication')
local history = type(text) == 'string' and string.match(text, 'master_replid:(%w+)') or ''
return { redis.call('HGET', KEYS[1], 'id') or '', history }
`

export type InboxScriptName =
  | 'begin'
  | 'locks'
  | 'read'
  | 'swap'
  | 'list'
  | 'unlist'
  | 'digest'
  | 'open'
  | 'identity'
  | 'commit'
export type InboxScripts = Readonly<Record<InboxScriptName, Script>>

const BODIES: Readonly<Record<InboxScriptName, string>> = {
  begin,
  locks,
  read,
  swap,
  list,
  unlist,
  digest,
  open,
  identity,
  commit,
}

const PRELUDE = `
local now = clock()
local function whole(number) return string.format('%.0f', number) end
-- The lock of an event that its transaction cannot claim. Others see at once that the event is known.
local UNCHANGED = ':unchanged'
local function is_changing(lock) return string.sub(lock, -#UNCHANGED) ~= UNCHANGED end
local function digest_of(key) return redis.sha1hex(redis.call('DUMP', key) or '') end
`

/** @param clock - Text that defines `clock()`: of Redis, or one that a test moves. */
export function createInboxScripts(clock: string): InboxScripts {
  const entries = Object.entries(BODIES).map(([name, body]): [string, Script] => {
    const source = `${clock}\n${PRELUDE}\n${body}`
    return [name, { source, sha: createHash('sha1').update(source).digest('hex') }]
  })
  return Object.fromEntries(entries) as InboxScripts
}
