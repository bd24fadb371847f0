export const renew: string = `
-- Extends leases. ARGV[3] lease in ms; for each event: owner. Answers 1 held, 0 lost.
local lease = tonumber(ARGV[3])
local answers = {}
for i, key in ipairs(KEYS) do
  local state = mine(key, ARGV[3 + i])
  if state then
    state.till = now + lease
    put_progress(key, state)
  end
  answers[i] = state and 1 or 0
end
return answers
`
