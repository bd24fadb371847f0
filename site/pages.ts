/** A part of the sidebar: the documents of `docs/`, by name, with what the sidebar calls them. */
export interface Section {
  readonly title: string
  readonly pages: readonly (readonly [page: string, title: string])[]
}

/** The order in which a reader meets the documents. `test-e2e/site` checks that none is missing. */
export const SECTIONS: readonly Section[] = [
  {
    title: 'Use',
    pages: [
      ['start', 'Start'],
      ['sqs', 'SQS'],
      ['kafka', 'Kafka'],
      ['rabbitmq', 'RabbitMQ'],
      ['redis-streams', 'Redis Streams'],
      ['bullmq', 'BullMQ'],
      ['nats', 'NATS'],
      ['http', 'HTTP'],
      ['webhooks', 'Webhooks'],
      ['outbox', 'Outbox'],
      ['once', 'Cron and commands'],
      ['lambda', 'Lambda'],
      ['nestjs', 'NestJS'],
      ['runtimes', 'Bun and Deno'],
      ['orms', 'ORMs'],
      ['messages', 'Messages of others'],
      ['configuration', 'Configuration'],
      ['choosing', 'Choosing a composition'],
      ['redis-effects', 'Effects in Redis'],
      ['dynamodb', 'Leases in DynamoDB'],
      ['from-your-own-table', 'From your own dedup table'],
      ['versions', 'Supported versions'],
    ],
  },
  {
    title: 'Run',
    pages: [
      ['migrations', 'Deploy migrations'],
      ['operations', 'Operations'],
      ['sealing', 'Sealed at rest'],
      ['cli', 'Command line and console'],
      ['telemetry', 'Telemetry'],
      ['local', 'Everything locally'],
    ],
  },
  {
    title: 'Trust',
    pages: [
      ['edges', 'Four edges in pictures'],
      ['guarantees', 'Guarantees'],
      ['failures', 'Failures'],
      ['traps', 'Traps'],
      ['trap-tests', 'The tests of the traps'],
      ['prove', 'Prove your own handler'],
      ['proof', 'Proof'],
      ['configurations', 'Configurations'],
      ['benchmarks', 'Benchmarks'],
      ['changelog', 'Changelog'],
      ['security', 'Security'],
    ],
  },
  {
    title: 'Change',
    pages: [
      ['architecture', 'Architecture'],
      ['extending', 'Extending'],
      ['client-contract', 'The contract with clients'],
      ['servers', 'Test servers'],
      ['contributing', 'Contributing'],
    ],
  },
]

/** Documents outside of `docs/`, with the page that each one is. */
const OTHERS: Readonly<Record<string, string>> = {
  'README.md': 'start.md',
  'CONTRIBUTING.md': 'contributing.md',
  'CHANGELOG.md': 'changelog.md',
  'SECURITY.md': 'security.md',
  'site/index.md': 'index.md',
}

/** The page that a file of the repository is, if it is one. */
export function pageOf(file: string): string | undefined {
  const generated = /^site\/(reference\/.+\.md)$/.exec(file)?.[1]
  return OTHERS[file] ?? generated ?? /^docs\/([\w-]+\.md)$/.exec(file)?.[1]
}

/** Every file that is a page. */
export const SOURCES: readonly string[] = [
  ...Object.keys(OTHERS),
  'docs/*.md',
  'site/reference/**/*.md',
]

/** The anchor of a heading, as GitHub makes it, so that a link works here and there. */
export function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}
