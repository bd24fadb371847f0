export const claim: string = `
-- Takes the exclusive right to process each event.
-- For each event: ARGV fingerprint (8 bytes), owner, lease in ms, most attempts (0: no limit).
-- Answers for each, as in model/lease-store.ts: acquired by attempt | in-progress ms | not-due ms | duplicate [result]
-- | dead reason | conflict | unknown. Cost with an inbox: one or two HMGET for a done event; two HMGET,
-- GET and SET for a new event.
local function acquire(key, claim, before, by)
  local attempt = before.attempt + 1
  put_progress(key, {
    fingerprint = claim.fingerprint, owner = claim.owner, till = now + claim.lease,
    attempt = attempt, by = by, parked = before.parked,
  })
  return { 'acquired', by, attempt }
end

local function acquire_next(key, claim, state, by)
  if claim.most > 0 and state.attempt >= claim.most then
    put_dead(key, state, 'attempts-spent', KEEP_MS)
    return { 'dead', 'attempts-spent' }
  end
  return acquire(key, claim, state, by)
end

local ON = {
  p = function(key, claim, state)
    if state.owner == claim.owner then
      state.till = math.max(state.till, now + claim.lease)
      put_progress(key, state)
      return { 'acquired', state.by, state.attempt }
    end
    local remaining = state.till - now
    if remaining > 0 then return { 'in-progress', remaining } end
    return acquire_next(key, claim, state, 'takeover')
  end,
  w = function(key, claim, state)
    local remaining = state.till - now
    if remaining > 0 then return { 'not-due', remaining } end
    return acquire_next(key, claim, state, 'retry')
  end,
  d = function(_, _, state)
    return { 'duplicate', state.result }
  end,
  x = function(_, _, state)
    return { 'dead', state.reason }
  end,
}

local function claim_unmarked(key, claim)
  local state = get(key)
  if not state then return acquire(key, claim, { attempt = 0, parked = '0' }, 'first') end
  if state.kind == '?' then return { 'unknown' } end
  if is_conflict(state.fingerprint, claim.fingerprint) then return { 'conflict' } end
  return ON[state.kind](key, claim, state)
end

local CONFLICT, DUPLICATE = { 'conflict' }, { 'duplicate' }
local answers = {}
for i = 1, #KEYS / STRIDE do
  local at, place = 2 + (i - 1) * 4, 1 + (i - 1) * STRIDE
  local key = KEYS[place]
  -- Marks come first: for a duplicate nothing else is read.
  local mark = MARK_MS > 0 and mark_of(place)
  if not mark then
    answers[i] = claim_unmarked(key, {
      fingerprint = ARGV[at + 1], owner = ARGV[at + 2],
      lease = tonumber(ARGV[at + 3]), most = tonumber(ARGV[at + 4]),
    })
  elseif is_conflict(mark, ARGV[at + 1]) then answers[i] = CONFLICT
  else answers[i] = DUPLICATE end
end
return answers
`
