import { type Playable, playable } from '../../fuzz/configurations/playable.ts'
import { SQS } from './configurations-grid.ts'

export const sqsConfigurations: Playable = playable(SQS, ['sqs'], async (servers, settings) =>
  (await import('./configurations-scenario.ts')).openSqs(servers, settings),
)
