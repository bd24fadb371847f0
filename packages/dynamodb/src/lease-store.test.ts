import {
  ConditionalCheckFailedException,
  type DeleteItemCommand,
  GetItemCommand,
  PutItemCommand,
} from '@aws-sdk/client-dynamodb'
import { ConfigurationError } from '@onceward/core'
import type { Claim, EventId, Fingerprint, OwnerToken, Runtime } from '@onceward/core/ports'
import { systemRuntime } from '@onceward/core/ports'
import { describe, expect, it } from 'vitest'
import type { DynamoLike } from './client.ts'
import type { Item } from './item.ts'
import { dynamoLeases, leasesOf } from './lease-store.ts'

const ID = '11111111-2222-3333-4444-555555555555' as EventId
const newClaim = (owner: string): Claim => ({
  ...{ id: ID, fingerprint: 1n as Fingerprint, ownerToken: owner as OwnerToken, leaseMs: 30_000 },
})

type Sent = GetItemCommand | PutItemCommand | DeleteItemCommand
/** What happens to one request: it is answered, its answer is lost, or it fails before it does anything. */
type Fate = 'answered' | 'repeated' | Error

/** One item, as DynamoDB keeps it; `repeated` is what the SDK makes of an answer that was lost. */
class OneItem {
  item: Item | undefined
  readonly sent: string[] = []
  readonly fates: Fate[] = []
  returnsOld = true

  readonly client = {
    send: async (command: Sent): Promise<unknown> => {
      const fate = this.fates.shift() ?? 'answered'
      this.sent.push(command.constructor.name)
      if (fate instanceof Error) throw fate
      const answer = this.#carryOut(command)
      return fate === 'repeated' ? this.#carryOut(command) : answer
    },
  } as unknown as DynamoLike

  #carryOut(command: Sent): unknown {
    if (command instanceof GetItemCommand) return { Item: this.item }
    const { ExpressionAttributeValues: values } = command.input
    const isMet =
      values === undefined ? this.item === undefined : this.item?.version?.S === values[':seen']?.S
    if (!isMet) {
      throw new ConditionalCheckFailedException({
        ...{ message: 'The conditional request failed', $metadata: {} },
        ...(this.returnsOld && this.item !== undefined && { Item: { ...this.item } }),
      })
    }
    this.item = command instanceof PutItemCommand ? command.input.Item : undefined
    return {}
  }
}

const failure = (name: string, message = 'no'): Error => Object.assign(new Error(message), { name })

describe('dynamoLeases', () => {
  it.each([
    ['returns the old item', true, ['PutItemCommand']],
    ['does not return it', false, ['PutItemCommand', 'GetItemCommand']],
  ])(
    'takes a write that the SDK repeated for its own where the server %s',
    async (_, returnsOld, sent) => {
      const table = new OneItem()
      table.returnsOld = returnsOld
      table.fates.push('repeated')
      const leases = dynamoLeases(table.client, { table: 'onceward' })
      expect(await leases.claim([newClaim('a')])).toEqual([
        { kind: 'acquired', by: 'first', attempt: 1 },
      ])
      expect(table.sent).toEqual(sent)
      table.fates.push('repeated')
      expect(await leases.complete([{ id: ID, ownerToken: 'a' as OwnerToken }], 1_000)).toEqual([
        'held',
      ])
    },
  )

  it('costs a first run two writes, and a copy one that is refused', async () => {
    const table = new OneItem()
    const leases = dynamoLeases(table.client, { table: 'onceward' })
    await leases.claim([newClaim('a')])
    await leases.complete([{ id: ID, ownerToken: 'a' as OwnerToken }], 60_000)
    expect(table.sent).toEqual(['PutItemCommand', 'PutItemCommand'])
    expect(await leases.claim([newClaim('b')])).toMatchObject([{ kind: 'duplicate' }])
    expect(table.sent).toHaveLength(3)
  })

  it('holds a lease for as much longer as the clocks may differ', async () => {
    const table = new OneItem()
    let nowMs = 1_000_000
    const runtime: Runtime = { ...systemRuntime, now: () => nowMs as ReturnType<Runtime['now']> }
    const leases = leasesOf(table.client, { table: 'onceward', clockSkewMs: 500 }, runtime)
    await leases.claim([newClaim('a')])
    nowMs += 30_400
    expect(await leases.claim([newClaim('b')])).toEqual([{ kind: 'in-progress', remainingMs: 100 }])
    nowMs += 100
    expect(await leases.claim([newClaim('b')])).toMatchObject([
      { kind: 'acquired', by: 'takeover' },
    ])
  })

  it('takes an item whose time is over for deleted, also while DynamoDB still has it', async () => {
    const table = new OneItem()
    let nowMs = 1_000_000
    const runtime: Runtime = { ...systemRuntime, now: () => nowMs as ReturnType<Runtime['now']> }
    const leases = leasesOf(table.client, { table: 'onceward' }, runtime)
    await leases.claim([newClaim('a')])
    await leases.complete([{ id: ID, ownerToken: 'a' as OwnerToken }], 60_000)
    nowMs += 59_999
    expect(await leases.claim([newClaim('b')])).toMatchObject([{ kind: 'duplicate' }])
    nowMs += 1
    expect(await leases.claim([newClaim('b')])).toMatchObject([{ kind: 'acquired', by: 'first' }])
  })

  it.each([
    ['ProvisionedThroughputExceededException', 'too little capacity'],
    ['TransactionConflictException', 'a transaction of another program holds the item'],
    ['AccessDeniedException', 'allow dynamodb:GetItem, PutItem and DeleteItem'],
    ['CredentialsProviderError', 'has no credentials'],
  ])('says what to do after %s, and changes nothing', async (name, text) => {
    const table = new OneItem()
    table.fates.push(failure(name))
    const leases = dynamoLeases(table.client, { table: 'onceward' })
    await expect(leases.claim([newClaim('a')])).rejects.toMatchObject({
      ...{ code: 'ONCEWARD_STORE_UNAVAILABLE', message: expect.stringContaining(text) },
    })
    expect(await leases.claim([newClaim('a')])).toMatchObject([{ kind: 'acquired', by: 'first' }])
  })

  it('waits no longer than budgetMs for an answer that never comes', async () => {
    const client = { send: () => new Promise(() => {}) } as unknown as DynamoLike
    const leases = dynamoLeases(client, { table: 'onceward', budgetMs: 5 })
    await expect(leases.claim([newClaim('a')])).rejects.toThrow(
      'DynamoDB did not answer PutItem within 5 ms.',
    )
  })

  it('refuses an item of another program', async () => {
    const table = new OneItem()
    table.item = { id: { S: ID } }
    const leases = dynamoLeases(table.client, { table: 'onceward' })
    await expect(leases.claim([newClaim('a')])).rejects.toThrow('Give onceward a table of its own.')
  })

  it.each([
    [
      { table: 'onceward', tabel: 'x' },
      'dynamoLeases does not know "tabel", did you mean "table"?',
    ],
    [{ table: '' }, 'Expected `table` of dynamoLeases to be a text, got string.'],
    [{ table: 'onceward', keyAttribute: 'state' }, 'which is an attribute of onceward itself'],
    [{ table: 'onceward', ttlAttribute: 'id' }, 'are the same'],
    [{ table: 'onceward', clockSkewMs: -1 }, 'Expected `clockSkewMs`'],
  ])('refuses the options %o', (options, text) => {
    const { client } = new OneItem()
    expect(() => dynamoLeases(client, options)).toThrow(ConfigurationError)
    expect(() => dynamoLeases(client, options)).toThrow(text)
  })

  it('refuses what is no client', () => {
    expect(() => dynamoLeases({} as DynamoLike, { table: 'onceward' })).toThrow(
      'Give `new DynamoDBClient({})`.',
    )
  })
})
