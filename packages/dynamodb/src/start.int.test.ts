import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { ConfigurationError, createGuard } from '@onceward/core'
import { memoryInbox, toDelivery } from '@onceward/core/memory'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Dynalite, startDynalite } from './fixtures/dynalite.ts'
import { dynamoLeases } from './lease-store.ts'

let server: Dynalite

beforeAll(async () => {
  server = await startDynalite()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('a guard with dynamoLeases', () => {
  it('runs an event once and answers its copies with the result, in another process too', async () => {
    const table = await server.table()
    let calls = 0
    const guard = (): ReturnType<typeof createGuard> =>
      createGuard(
        {
          ...{ consumer: 'mails', onTakeover: 'retry', eventKey: () => 'order-1' },
          leases: dynamoLeases(server.client, { table }),
        },
        async () => {
          calls += 1
          return { sent: calls }
        },
      )
    const [one, other] = [guard(), guard()]
    const delivery = toDelivery({ order: 1 })
    const settled = await Promise.all([one.process(delivery), other.process(delivery)])
    const again = await other.process(delivery)
    expect(calls).toBe(1)
    expect(settled.some(({ kind }) => kind === 'ack')).toBe(true)
    expect(again).toEqual({ kind: 'ack', by: 'duplicate', result: { sent: 1 } })
    await Promise.all([one.close(), other.close()])
  })

  it.each([
    ['a table that does not exist', async () => 'nosuch-table', 'the table does not exist'],
    [
      'a table with a key of numbers',
      () => server.table({ type: 'N' }),
      'needs a partition key of type text',
    ],
  ])('refuses %s at its start', async (_, tableOf, text) => {
    const leases = dynamoLeases(server.client, { table: await tableOf() })
    await expect(startWith(leases)).rejects.toThrow(text)
    await expect(startWith(leases)).rejects.toBeInstanceOf(ConfigurationError)
  })

  it('refuses a client without a region at its start', async () => {
    const client = new DynamoDBClient({ region: (): Promise<never> => Promise.reject(noRegion()) })
    await expect(startWith(dynamoLeases(client, { table: 'onceward' }))).rejects.toBeInstanceOf(
      ConfigurationError,
    )
  })

  it('refuses an inbox beside it', async () => {
    const guard = createGuard(
      {
        consumer: 'mails',
        inbox: memoryInbox(),
        leases: dynamoLeases(server.client, { table: 'a' }),
      },
      async () => {},
    )
    await expect(guard.process(toDelivery({}))).rejects.toThrow('is for guards without an inbox')
  })
})

const noRegion = (): Error => new Error('Region is missing')

async function startWith(leases: ReturnType<typeof dynamoLeases>): Promise<void> {
  const guard = createGuard(
    { consumer: 'mails', onTakeover: 'retry', leases, eventKey: () => 'order-1' },
    async () => {},
  )
  await guard.process(toDelivery({}))
}
