export const examine: string = `
-- For the self-test: the ms until the key of an event expires (-1: never), and the server's INFO ('' if the user may
-- not call it).
local function info(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end
return { { redis.call('PTTL', KEYS[1]), info('server') .. info('memory') .. info('persistence') } }
`
