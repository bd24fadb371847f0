import { type Playable, playable } from '../../fuzz/configurations/playable.ts'
import { STREAMS } from './configurations-grid.ts'

export const streamsConfigurations: Playable = playable(
  STREAMS,
  ['redis'],
  async (servers, settings) =>
    (await import('./configurations-scenario.ts')).openStreams(servers, settings),
)
