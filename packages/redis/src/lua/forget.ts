export const forget: string = `
-- An operator deletes the state of events. Answers 1, or 0 for an unknown event or a key that onceward cannot read.
-- Marks stay: they belong to guards with an inbox, where PostgreSQL decides.
local answers = {}
for i, key in ipairs(KEYS) do
  local state = get(key)
  answers[i] = state and state.kind ~= '?' and redis.call('DEL', key) or 0
end
return answers
`
