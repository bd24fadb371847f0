export const remember: string = `
-- Remembers events that are done and had no claim, beside an inbox. ARGV[3] how long they may be remembered, ms; for each
-- event: fingerprint (8 bytes), result as JSON ('' for none). Answers 1, or 2: not remembered, because another program's key
-- is in the place of the mark. A claim that another process holds meanwhile stays: its copy finds the row.
local LARGEST_RESULT = 8192
local remember_ms = tonumber(ARGV[3])
local may_mark = mark_lives() <= remember_ms

local answers = {}
for i = 1, #KEYS / STRIDE do
  local at, place = 4 + (i - 1) * 2, 1 + (i - 1) * STRIDE
  local fingerprint, result = ARGV[at], ARGV[at + 1]
  answers[i] = 1
  if result == '' then
    if may_mark and not put_mark(place, fingerprint) then answers[i] = 2 end
  elseif #result <= LARGEST_RESULT and not get(KEYS[place]) then
    put(KEYS[place], 'd', fingerprint, #result .. ' ' .. result, math.min(MARK_MS, remember_ms))
  end
end
return answers
`
