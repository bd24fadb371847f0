import { expect, test } from 'vitest'
import { newEvent, openInbox, silent } from '../fixtures/inbox.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { createDeadLetterPublisher } from './publish-dead-letter.ts'

// Red when the name of the queue decides: the dead letter of one virtual host is published in another.
test('a parked dead letter is published only by a publisher of its namespace, or where nobody knows it', async () => {
  const { clock, session } = await openInbox()
  const options = { consumer: 'billing', logger: silent, runtime: clock.runtime }
  const publishing = createDeadLetterPublisher(options as unknown as ResolvedOptions)
  const published: string[] = []
  const of = (namespace?: string) => ({ broker: 'amqp', queue: 'orders', namespace })
  const register = (name: string, source: ReturnType<typeof of>) =>
    publishing.register(source, async () => void published.push(name))
  const publish = async (namespace?: string): Promise<string | undefined> => {
    const event = newEvent()
    await session.bury([{ event, attempt: 1, error: new Error('no'), reason: 'fatal' }])
    const ref = { kind: 'event', id: event.id } as const
    const delivery = { ...toDelivery({ order: 1 }), source: of(namespace) }
    return (await publishing.publishDue({ ref, what: 'publish', delivery }, session))?.kind
  }
  register('/', of('/'))
  expect(await publish('refunds')).toBeUndefined()
  const later = of()
  register('later', later)
  expect([await publish('refunds'), await publish('/'), await publish()]).toEqual(
    Array(3).fill('published'),
  )
  // A wrap learns its namespace after its start.
  later.namespace = 'other'
  expect(await publish('refunds')).toBeUndefined()
  expect(await publish()).toBe('published')
  expect(published).toEqual(['later', '/', 'later', 'later'])
})
