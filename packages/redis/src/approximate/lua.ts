import { createHash } from 'node:crypto'
import { clock } from '../lua/clock.ts'
import type { Script } from '../scripts.ts'

/*
 * One event for each call. KEYS[1] is where its shard begins; the keys of each slice of time and layer begin with it, and with
 * its hash tag. ARGV[1] is the length of a slice in ms, ARGV[2] how many slices the window has.
 */
const PRELUDE = `
${clock}
local SLICE_MS, SLICES = tonumber(ARGV[1]), tonumber(ARGV[2])
local function whole(number) return string.format('%.0f', number) end
local newest = math.floor(clock() / SLICE_MS)
local LIFE_MS = whole((SLICES + 1) * SLICE_MS)
local function key_of(age) return KEYS[1] .. whole(newest - age) end
`

/** ARGV[3]: 64 bits of the id. A small set of integers takes 8 bytes for each. */
const hasExact = `
for age = 0, SLICES do
  if redis.call('SISMEMBER', key_of(age), ARGV[3]) == 1 then return 1 end
end
return 0
`

const addExact = `
redis.call('SADD', key_of(0), ARGV[3])
redis.call('PEXPIRE', key_of(0), LIFE_MS)
return 1
`

/**
 * Layers of Bloom filters. ARGV[3], ARGV[4]: two numbers of the id. ARGV[5]: ids in the first layer; ARGV[6]: its error rate.
 * Each layer has twice the room of the one before and half its error rate, so that all of them together stay below twice
 * the first rate, however many ids there are.
 */
const BLOOM = `
local one, two, room, rate = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local LN2 = math.log(2)
local function layer_of(level)
  local error_rate = rate / 2 ^ level
  local ids = room * 2 ^ level
  return { bits = math.ceil(ids * -math.log(error_rate) / (LN2 * LN2)), hashes = math.ceil(-math.log(error_rate) / LN2) }
end
-- The layer in which the next id of so many goes.
local function level_of(count)
  local level, held = 0, room
  while count >= held do level, held = level + 1, held + room * 2 ^ (level + 1) end
  return level
end
local function place(layer, n) return whole((one + n * two + n * n * n) % layer.bits) end
local function has(key, level)
  local layer = layer_of(level)
  for n = 1, layer.hashes do
    if redis.call('GETBIT', key .. ':' .. level, place(layer, n)) == 0 then return false end
  end
  return true
end
local function count_of(key) return tonumber(redis.call('GET', key .. ':n') or '0') end
local function known_in(key)
  local count = count_of(key)
  if count == 0 then return false end
  for level = 0, level_of(count - 1) do
    if has(key, level) then return true end
  end
  return false
end
`

const hasBloom = `
${BLOOM}
for age = 0, SLICES do
  if known_in(key_of(age)) then return 1 end
end
return 0
`

const addBloom = `
${BLOOM}
local key = key_of(0)
if known_in(key) then return 1 end
local level = level_of(count_of(key))
local layer = layer_of(level)
for n = 1, layer.hashes do redis.call('SETBIT', key .. ':' .. level, place(layer, n), 1) end
redis.call('INCR', key .. ':n')
redis.call('PEXPIRE', key .. ':' .. level, LIFE_MS)
redis.call('PEXPIRE', key .. ':n', LIFE_MS)
return 1
`

function scriptOf(body: string): Script {
  const source = `${PRELUDE}\n${body}`
  return { source, sha: createHash('sha1').update(source).digest('hex') }
}

export interface SetScripts {
  readonly has: Script
  readonly add: Script
}

export const EXACT: SetScripts = { has: scriptOf(hasExact), add: scriptOf(addExact) }
export const BLOOM_FILTER: SetScripts = { has: scriptOf(hasBloom), add: scriptOf(addBloom) }
