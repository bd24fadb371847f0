import type { Admin, Consumer } from '@platformatic/kafka'
import type { ClusterView, TopicIds, TopicLook, Unseen } from '../port.ts'
import { signedBy } from '../shared-group.ts'
import { responseIn } from './errors.ts'

const UNKNOWN_TOPIC = 3
const DENIED = 29
/** `ConfigResourceTypes.TOPIC`. */
const TOPIC = 2

/** What both kinds of clients can be asked. */
type Asked = Pick<Consumer, 'metadata'> | Pick<Admin, 'metadata'>

/** Asks for the ids of topics, which are asked for again without those that the broker refuses. */
export const lookOf =
  (client: Asked, admin: () => Pick<Admin, 'listTopics'>): TopicLook =>
  async (topics) => {
    const asked = topics === 'all' ? await admin().listTopics() : topics
    const unseen = { missing: new Set<string>(), denied: new Set<string>() }
    for (;;) {
      const left = asked.filter((each) => !(unseen.missing.has(each) || unseen.denied.has(each)))
      try {
        return { ...unseen, ...(await idsOf(client, left)) }
      } catch (error) {
        const before = unseen.missing.size + unseen.denied.size
        note(error, unseen)
        if (unseen.missing.size + unseen.denied.size === before) throw error
      }
    }
  }

/** The id of a topic as the other clients write it. */
export const hexOf = (id: string): string => id.replaceAll('-', '')

async function idsOf(
  client: Asked,
  topics: readonly string[],
): Promise<Pick<TopicIds, 'clusterId' | 'ids'>> {
  // The client sorts the list that it gets.
  const metadata = await client.metadata({ topics: [...topics], forceUpdate: true, retries: 0 })
  const ids = [...metadata.topics].map(([name, topic]) => [name, hexOf(topic.id)] as const)
  return { clusterId: metadata.id, ids: new Map(ids) }
}

/** The client says a missing topic in the text of its error only. */
function note(error: unknown, { denied, missing }: Record<keyof Unseen, Set<string>>): void {
  const name = /^Unknown topic (.+)\.$/.exec(String(Reflect.get(Object(error), 'message')))?.[1]
  if (name !== undefined) missing.add(name)
  const response = responseIn(error) as
    | { readonly topics?: readonly { readonly errorCode: number; readonly name: string | null }[] }
    | undefined
  for (const { errorCode, name: topic } of response?.topics ?? []) {
    if (topic === null) continue
    if (errorCode === UNKNOWN_TOPIC) missing.add(topic)
    if (errorCode === DENIED) denied.add(topic)
  }
}

export function viewOf(admin: Admin): ClusterView {
  const look = lookOf(admin, () => admin)
  return {
    unseen: async (topics) => {
      const { missing = [], denied = [] } = (await look(topics)) ?? {}
      return { missing: [...missing], denied: [...denied] }
    },
    topicNames: () => admin.listTopics(),
    topicConfigs: async (topics, names) => {
      const resources = topics.map((resourceName) => ({
        ...{ resourceType: TOPIC, resourceName },
        configurationKeys: [...names],
      })) as Parameters<Admin['describeConfigs']>[0]['resources']
      const described = await admin.describeConfigs({ resources })
      return new Map(
        described.map(({ configs, resourceName }) => [
          resourceName,
          new Map(configs.map(({ name, value }) => [name, value ?? ''])),
        ]),
      )
    },
    replicas: async (topic) => {
      const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true })
      return topics.get(topic)?.partitions.map(({ replicas }) => replicas.length) ?? []
    },
    consumersOf: async (groupId) => {
      const groups = await admin.describeGroups({ groups: [groupId] })
      return [...groups.values()].flatMap(({ members }) =>
        [...members.values()].map(({ metadata }) => signedBy(metadata?.metadata)),
      )
    },
  }
}
