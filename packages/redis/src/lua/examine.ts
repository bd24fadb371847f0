export const examine: string = `
-- For the self-test: the ms until the key of an event expires (-1: never), and the server's INFO ('' if the user may
-- not call it). With done marks, an error if the user or the server lacks a command for them: the test event gets none.
local function info(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end

-- The key of a claim is no hash, so these commands change nothing. Without the key HSET would make a hash.
local function missing()
  local key = KEYS[1]
  if MARK_MS == 0 or redis.call('EXISTS', key) == 0 then return nil end
  local commands = { { 'HGET', key, 'g' }, { 'HMGET', key, 'g' }, { 'HRANDFIELD', key, 1 }, { 'HSET', key, 'g', '0' } }
  for _, command in ipairs(commands) do
    local answer = redis.pcall(unpack(command))
    if type(answer) == 'table' and answer.err and not string.find(answer.err, 'WRONGTYPE', 1, true) then return answer end
  end
  redis.call('PEXPIRE', key, whole(math.max(1, redis.call('PTTL', key))))
  return nil
end

return missing() or { { redis.call('PTTL', KEYS[1]), info('server') .. info('memory') .. info('persistence') } }
`
