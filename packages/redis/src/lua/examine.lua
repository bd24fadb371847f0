-- What the self-test cannot learn from answers: the ms until the key of an event expires (-1: never), and what the
-- server says of itself; '' where it may not be asked.
local function info(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end
return { redis.call('PTTL', KEYS[1]), info('server') .. info('memory') .. info('persistence') }
