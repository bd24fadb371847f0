export const bury: string = `
-- Marks events as dead. ARGV[3] how long they are remembered, ms; for each event: owner, reason. Answers 1 held,
-- 0 lost. With an inbox the script deletes the claim, because only PostgreSQL says that an event is dead.
local remember = tonumber(ARGV[3])
local answers = {}
for i, key in ipairs(KEYS) do
  local at = 3 + (i - 1) * 2
  local state = mine(key, ARGV[at + 1])
  if state and MARK_MS > 0 then redis.call('DEL', key)
  elseif state then put_dead(key, state, ARGV[at + 2], remember) end
  answers[i] = state and 1 or 0
end
return answers
`
