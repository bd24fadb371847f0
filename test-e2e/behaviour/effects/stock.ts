import { createGuard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { redisInbox } from '@onceward/redis'
import { Redis } from 'ioredis'

/** Where a worker of the stock dies. */
export type Death = 'in-handler' | 'before-commit' | 'commit-sent' | 'after-commit' | 'never'

const [port = '', hashTag = '', death = 'never'] = process.argv.slice(2) as [string, string, Death]

type Run = (...args: unknown[]) => Promise<unknown>

const die = (): Promise<never> => {
  process.kill(process.pid, 'SIGKILL')
  return new Promise(() => undefined)
}

/** The client, which lets the process die beside the commit: the script that gets the writes of the handler. */
const client = new Redis(Number(port))
const dying =
  (run: Run) =>
  async (...args: unknown[]): Promise<unknown> => {
    if (!args.includes('INCRBY')) return run(...args)
    if (death === 'before-commit') await die()
    const sent = run(...args)
    if (death === 'commit-sent') await die()
    const answer = await sent
    return death === 'after-commit' ? die() : answer
  }
// The first call of a script is refused by its hash, and sent as text.
const evalsha = dying(client.evalsha.bind(client) as Run)
const evaluate = dying(client.eval.bind(client) as Run)
Object.assign(client, { evalsha, eval: evaluate })

const guard = createGuard(
  { consumer: 'stock', inbox: redisInbox(client, { hashTag }) },
  async ({ payload }, { tx }) => {
    const { sku } = payload as { readonly sku: string }
    tx.incrBy(`{${hashTag}}sold:${sku}`, 1)
    tx.hIncrBy(`{${hashTag}}stock`, sku, -1)
    if (death === 'in-handler') await die()
  },
)

process.on('message', (sku: string) => {
  const delivery = toDelivery({ sku }, { messageId: sku, redelivered: true })
  guard.process(delivery).then(
    ({ kind }) => process.send?.(kind),
    (error: unknown) => process.send?.(String(error)),
  )
})
