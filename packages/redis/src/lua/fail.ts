export const fail: string = `
-- Lets events wait for their next attempt. For each event: owner, delay in ms. Answers 1 held, 0 lost.
local answers = {}
for i, key in ipairs(KEYS) do
  local at = 2 + (i - 1) * 2
  local state = mine(key, ARGV[at + 1])
  if state then put_waiting(key, state, state.attempt, now + tonumber(ARGV[at + 2])) end
  answers[i] = state and 1 or 0
end
return answers
`
