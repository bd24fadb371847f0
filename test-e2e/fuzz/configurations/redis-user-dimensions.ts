import type { Dimension } from './grid.ts'
import { outage, type RedisSettings } from './redis-settings.ts'

/** Rights that the scripts need, as the refusal names them. */
const RIGHTS =
  '~{o:* +evalsha +eval +script|load +time +exists +get +set +del +hget +hmget +hrandfield +hset +pexpire +pttl +info'
/** What clients send when they connect. */
const CONNECTING = '+hello +select +client +ping +auth'

/** A pool of node-redis does not tell why it has no client: it was refused, and tries again. */
const POOL_WAITS = 'Timeout waiting for a client'

/** Commands of the scripts, and whether only guards with an inbox need them. */
const COMMANDS: readonly (readonly [name: string, marks?: 'marks'])[] = [
  ...[['evalsha'], ['eval'], ['time'], ['get'], ['set'], ['del'], ['pttl']].map(
    ([name = '']) => [name] as const,
  ),
  ...['exists', 'hget', 'hmget', 'hset', 'hrandfield', 'pexpire'].map(
    (name) => [name, 'marks'] as const,
  ),
]

export function rightsDimensions(isAlone: boolean): readonly Dimension<RedisSettings>[] {
  const isNeeded = (marks: string | undefined): boolean => !isAlone || marks === undefined
  const unread = isAlone ? { warned: 'could not be read with INFO' } : {}
  const RENAMED = 'take the `rename-command` of this command out'
  return [
    {
      name: 'rights of the user',
      choices: [
        { name: 'all' },
        {
          name: 'those that the refusal names',
          set: { rights: `${RIGHTS} ${CONNECTING}` },
          refusedIf: {
            when: ({ keyPrefix }) => keyPrefix !== undefined,
            names: 'grant `~{o:*`',
            says: 'if the client has a `keyPrefix`',
          },
        },
        ...COMMANDS.map(([name, marks]) => ({
          name: `not \`${name}\``,
          set: { rights: `~* +@all -${name}` },
          refused: isNeeded(marks) ? `+${name}` : undefined,
        })),
        { name: 'not `info`', set: { rights: '~* +@all -info' }, ...unread },
        {
          name: 'other keys',
          set: { rights: '~app:* +@all' },
          refused: 'grant `~{o:*`',
        },
        {
          name: 'keys to read only',
          set: { rights: '%R~{o:* +@all' },
          refused: 'grant `~{o:*`',
        },
      ],
    },
    {
      name: 'password',
      choices: [
        { name: 'right' },
        {
          name: 'none',
          set: { password: 'none', isUsed: false },
          refused: 'it requires a password',
          ...outage(isAlone, POOL_WAITS),
        },
        {
          name: 'wrong',
          set: { password: 'wrong', isUsed: false },
          refused: 'password',
          ...outage(isAlone, POOL_WAITS),
        },
      ],
    },
    {
      name: 'commands of the server',
      choices: [
        { name: 'all' },
        ...['EVALSHA', 'EVAL', 'TIME', 'GET', ...(isAlone ? [] : ['HSET'])].map((name) => ({
          name: `not \`${name}\``,
          set: { renamed: name },
          refused: RENAMED,
        })),
        { name: 'not `SCRIPT`', set: { renamed: 'SCRIPT' } },
        {
          name: 'not `INFO`',
          set: { renamed: 'INFO' },
          ...unread,
          refusedIf: {
            when: ({ client, option }) =>
              !client.startsWith('node-redis') && option !== 'no ready check',
            names: RENAMED,
            says: 'if the client checks with it whether the server is ready (`enableReadyCheck`)',
          },
        },
      ],
    },
  ]
}
