export const complete: string = `
-- Remembers processed events. ARGV[3] how long they may be remembered, ms; for each event: owner, result as JSON ('' for
-- none). Answers 1 held, 0 lost, 2 held but not remembered, because another program's key is in the place of the mark.
-- With an inbox the event gets a mark, or a key of its own if it has a result. A result that is too large is not
-- stored, and duplicates get it from PostgreSQL.
local LARGEST_RESULT = 8192
local remember = tonumber(ARGV[3])
local own_ms = MARK_MS > 0 and math.min(MARK_MS, remember) or remember

local function finish(place, state, result)
  local key = KEYS[place]
  local bytes = result == '' and -1 or #result
  if MARK_MS == 0 or bytes >= 0 and bytes <= LARGEST_RESULT then
    put(key, 'd', state.fingerprint, bytes .. ' ' .. result, own_ms)
    return 1
  end
  -- PostgreSQL forgets the event at the end of its window, and a mark that lived on would make its next one a duplicate.
  local may_mark = bytes < 0 and mark_lives() <= remember
  local is_foreign = may_mark and not put_mark(place, state.fingerprint)
  redis.call('DEL', key)
  return is_foreign and 2 or 1
end

local answers = {}
for i = 1, #KEYS / STRIDE do
  local at, place = 3 + (i - 1) * 2, 1 + (i - 1) * STRIDE
  local state = mine(KEYS[place], ARGV[at + 1])
  answers[i] = state and finish(place, state, ARGV[at + 2]) or 0
end
return answers
`
