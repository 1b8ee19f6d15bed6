# METADATA
# title: Rego of the layers
# description: >-
#   What the packages of the organisation, of this team and of this agent say. The embedded engine replaces this file
#   by one with a line for each package that is there: it would else evaluate the rules of every team.
package callgate.layers

# METADATA
# description: "Denials, each with the layer that says it."
deny contains {"layer": "org", "denial": denial} if some denial in data.callgate.org.deny

deny contains {"layer": layer, "denial": denial} if {
	some denial in data.callgate.team[input.identity.team].deny
	layer := concat(".", ["team", input.identity.team])
}

deny contains {"layer": layer, "denial": denial} if {
	some denial in data.callgate.agent[input.identity.agent].deny
	layer := concat(".", ["agent", input.identity.agent])
}

# METADATA
# description: "Denials that are only recorded."
shadow contains {"layer": "org", "denial": denial} if some denial in data.callgate.org.shadow

shadow contains {"layer": layer, "denial": denial} if {
	some denial in data.callgate.team[input.identity.team].shadow
	layer := concat(".", ["team", input.identity.team])
}

shadow contains {"layer": layer, "denial": denial} if {
	some denial in data.callgate.agent[input.identity.agent].shadow
	layer := concat(".", ["agent", input.identity.agent])
}

# METADATA
# description: "Demands that a person approves, in the form of denials."
approve contains {"layer": "org", "denial": demand} if some demand in data.callgate.org.approve

approve contains {"layer": layer, "denial": demand} if {
	some demand in data.callgate.team[input.identity.team].approve
	layer := concat(".", ["team", input.identity.team])
}

approve contains {"layer": layer, "denial": demand} if {
	some demand in data.callgate.agent[input.identity.agent].approve
	layer := concat(".", ["agent", input.identity.agent])
}

# METADATA
# description: "Lists of allowed tools. A layer whose list is undefined narrows nothing."
allowed_tools contains {"layer": "org", "names": names} if names := data.callgate.org.allowed_tools

allowed_tools contains {"layer": layer, "names": names} if {
	names := data.callgate.team[input.identity.team].allowed_tools
	layer := concat(".", ["team", input.identity.team])
}

allowed_tools contains {"layer": layer, "names": names} if {
	names := data.callgate.agent[input.identity.agent].allowed_tools
	layer := concat(".", ["agent", input.identity.agent])
}

# METADATA
# description: "Limits, in the form of the rule data."
limits contains data.callgate.org.limits

limits contains data.callgate.team[input.identity.team].limits

limits contains data.callgate.agent[input.identity.agent].limits
