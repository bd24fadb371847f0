export const remember: string = `
-- Remembers events that are done with a result and had no claim, beside an inbox. ARGV[3] how long they may be remembered,
-- ms; for each event: fingerprint (8 bytes), result as JSON. Answers 1. A claim that another process holds meanwhile stays:
-- its copy finds the row.
local LARGEST_RESULT = 8192
local remember_ms = tonumber(ARGV[3])

local answers = {}
for i = 1, #KEYS do
  local at, key = 4 + (i - 1) * 2, KEYS[i]
  local fingerprint, result = ARGV[at], ARGV[at + 1]
  answers[i] = 1
  if #result <= LARGEST_RESULT and not get(key) then
    put(key, 'd', fingerprint, #result .. ' ' .. result, math.min(MARK_MS, remember_ms))
  end
end
return answers
`
